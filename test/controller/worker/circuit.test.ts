import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { failureFor } from "../../../controller/assignment/failure.ts";
import {
  type Circuit,
  circuitProblem,
  createCircuit,
  type Pass,
} from "../../../controller/worker/circuit.ts";
import { createFakeClock, type FakeClock } from "../../fakes/fake-clock.ts";

const down = failureFor("backend_down", "connection refused");
const retryMs = 100;

describe("the circuit breaker of a backend", () => {
  let clock: FakeClock;
  let circuit: Circuit;
  beforeEach(() => {
    clock = createFakeClock();
    circuit = createCircuit(clock, { retryMs });
  });
  const pass = (): Pass => {
    const entered = circuit.enter();
    assert.ok(!("retryMs" in entered), "it lets nothing through");
    return entered;
  };
  const refused = () => {
    const entered = circuit.enter();
    assert.ok("retryMs" in entered, "it lets it through");
    return entered;
  };
  const open = () => {
    for (let i = 0; i < 3; i++) pass().failed(down);
  };

  it("opens after three failures in a row, and says why and for how long", () => {
    pass().failed(down);
    pass().failed(down);
    assert.equal(circuitProblem(circuit.state()), undefined);
    pass().failed(down);
    assert.deepEqual(refused(), { retryMs, failure: down });
    assert.match(circuitProblem(circuit.state()) ?? "", /since 2026-01-01T00:00:00.000Z.*backend_down/);
  });

  it("does not open as long as a create succeeds in between", () => {
    for (let i = 0; i < 10; i++) {
      pass().failed(down);
      pass().failed(down);
      pass().succeeded();
    }
    assert.equal(circuit.state().name, "closed");
  });

  it("counts calls other than creates as well", () => {
    for (let i = 0; i < 3; i++) circuit.failed(down);
    assert.equal(circuit.state().name, "open");
  });

  it("lets one probe through at a time when its time has come, and closes when that succeeds", async () => {
    open();
    await clock.step(retryMs);
    const probe = pass();
    assert.equal(circuit.state().name, "half-open");
    refused();
    probe.succeeded();
    assert.equal(circuit.state().name, "closed");
    pass();
  });

  it("waits twice as long after each failed probe, up to a limit, and tells nobody to wait that long", async () => {
    open();
    const pauses: number[] = [];
    for (let i = 0; i < 8; i++) {
      const { name } = circuit.state();
      assert.equal(name, "open");
      const before = clock.now();
      while (circuit.closedTo() !== undefined) await clock.step(10);
      pauses.push(clock.now() - before);
      pass().failed(down);
      assert.ok(refused().retryMs <= 4 * retryMs);
    }
    assert.deepEqual(pauses, [100, 200, 400, 800, 1600, 1600, 1600, 1600]);
  });

  it("takes failures of calls that began before it opened for nothing new", async () => {
    const late = [pass(), pass()];
    open();
    for (const one of late) one.failed(down);
    await clock.step(retryMs);
    pass();
  });

  it("opens again for longer when a list fails though a probe is due", async () => {
    open();
    await clock.step(retryMs);
    circuit.failed(down);
    await clock.step(2 * retryMs - 1);
    refused();
    await clock.step(1);
    pass();
  });

  it("tells once that it has opened, with the reason, and once that it has closed, whatever probes did", async () => {
    const told: (string | undefined)[] = [];
    circuit = createCircuit(clock, { retryMs }, (failure) => void told.push(failure?.reason));
    pass().succeeded();
    open();
    circuit.failed(down);
    await clock.step(retryMs);
    pass().failed(down);
    await clock.step(2 * retryMs);
    pass()[Symbol.dispose]();
    assert.deepEqual(told, ["backend_down"]);
    pass().succeeded();
    pass().succeeded();
    assert.deepEqual(told, ["backend_down", undefined]);
  });

  it("lets the next probe through when one came to no outcome", async () => {
    open();
    await clock.step(retryMs);
    pass()[Symbol.dispose]();
    pass().succeeded();
    assert.equal(circuit.state().name, "closed");
  });

  it("counts one outcome of a create only", () => {
    const one = pass();
    one.succeeded();
    for (let i = 0; i < 5; i++) one.failed(down);
    one[Symbol.dispose]();
    assert.deepEqual(circuit.state(), { name: "closed", failures: 0 });
  });

  it("closes when a create that began before it opened succeeds", () => {
    const early = pass();
    open();
    early.succeeded();
    assert.equal(circuit.state().name, "closed");
  });
});
