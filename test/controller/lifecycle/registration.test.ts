import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createRegistration } from "../../../controller/lifecycle/registration.ts";
import { testStart } from "../../support/builders.ts";

const minute = 60_000;

describe("the registration in Gitea", () => {
  function setUp() {
    let now = testStart;
    const registration = createRegistration({ now: () => now });
    return { registration, pass: (ms: number) => void (now += ms) };
  }

  it("is lost since the first answer that says so, until one does not", () => {
    const { registration, pass } = setUp();
    registration.answered(undefined);
    assert.equal(registration.lostSince(), undefined);
    registration.answered("unregistered");
    pass(minute);
    registration.answered("unregistered");
    assert.equal(registration.lostSince(), testStart);
    registration.answered(undefined);
    assert.equal(registration.lostSince(), undefined);
  });

  it("stays lost over faults that say nothing of it", () => {
    const { registration, pass } = setUp();
    registration.answered("unregistered");
    pass(minute);
    registration.answered("transient");
    assert.equal(registration.lostSince(), testStart);
  });

  it("is not known to be lost any more after a silence, or before the clock was set back", () => {
    const { registration, pass } = setUp();
    registration.answered("unregistered");
    pass(3 * minute);
    assert.equal(registration.lostSince(), undefined);
    registration.answered("unregistered");
    assert.equal(registration.lostSince(), testStart + 3 * minute);
    pass(-minute);
    assert.equal(registration.lostSince(), undefined);
  });
});
