import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { keptOf, type Twin } from "../../../../controller/backends/vm/twins.ts";

function aTwin(id: string, overrides: Partial<Twin> = {}): Twin {
  return {
    id,
    isValid: true,
    isGone: false,
    isStopping: false,
    phase: "running",
    isHandedOut: false,
    createdAt: 100,
    ...overrides,
  };
}

describe("of several sandboxes of one executor", () => {
  const cases: readonly (readonly [what: string, kept: Partial<Twin>, other: Partial<Twin>])[] = [
    ["the oldest is kept", { createdAt: 99 }, {}],
    ["one that lives is kept before an older one that has ended", {}, { phase: "ended", createdAt: 1 }],
    ["one that lives is kept before one that is gone", { phase: "starting" }, { isGone: true, createdAt: 1 }],
    ["the one that was handed out is kept before older ones", { isHandedOut: true }, { createdAt: 1 }],
    [
      "the one that was handed out is not kept when it has ended",
      { phase: "starting" },
      { isHandedOut: true, phase: "ended" },
    ],
    ["one that runs is kept before an older one that starts", {}, { phase: "starting", createdAt: 1 }],
    ["one that stays is kept before one that is being deleted", {}, { isStopping: true, createdAt: 1 }],
    ["one that can be read is kept before one that cannot", {}, { isValid: false, createdAt: 1 }],
    [
      "one that is there is kept of those that have ended",
      { phase: "ended" },
      { phase: "ended", isGone: true },
    ],
  ];
  for (const [what, kept, other] of cases)
    it(what, () => {
      const [a, b] = [aTwin("a", kept), aTwin("b", other)];
      assert.equal(keptOf([a, b])?.id, "a");
      assert.equal(keptOf([b, a])?.id, "a");
    });

  it("whoever looks keeps the same of two that are alike", () => {
    assert.equal(keptOf([aTwin("b"), aTwin("a"), aTwin("c")])?.id, "a");
    assert.equal(keptOf([]), undefined);
  });
});
