import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { backendKinds, isBackendKind } from "../../../controller/assignment/backend-kind.ts";
import { declaredLabels, offeredRunsOn, requirementOf } from "../../../controller/assignment/requirements.ts";

const reasonOf = (runsOn: readonly string[]) => {
  const requirement = requirementOf(runsOn);
  return requirement.ok ? `it is ${requirement.backend}` : requirement.reason;
};

describe("requirement of runs-on", () => {
  const known = [
    ["pod", "pod"],
    ["vm", "vm"],
    ["vm-dev", "vm"],
  ] as const;
  for (const [label, backend] of known) {
    it(`B-01 takes [self-hosted, ${label}] for ${backend}, in any order and with further labels`, () => {
      const further = fc.array(fc.constantFrom("linux", "self-hosted", "x64", "", label, "POD", "vm-prod"));
      const runsOn = further.chain((labels) => {
        const all = ["self-hosted", label, ...labels];
        return fc.shuffledSubarray(all, { minLength: all.length });
      });
      fc.assert(
        fc.property(runsOn, (labels) => {
          assert.deepEqual(requirementOf(labels), { ok: true, backend });
        }),
      );
    });
  }

  const refused: readonly (readonly [readonly string[], string])[] = [
    [[], 'runs-on: [] lacks "self-hosted"'],
    [["pod"], 'runs-on: [pod] lacks "self-hosted"'],
    [["pod", "vm"], 'runs-on: [pod, vm] lacks "self-hosted"'],
    [["Self-Hosted", "pod"], 'runs-on: [Self-Hosted, pod] lacks "self-hosted"'],
    [["self-hosted"], "runs-on: [self-hosted] names no backend"],
    [["self-hosted", "Pod"], "runs-on: [self-hosted, Pod] names no backend"],
    [["self-hosted", "pod:host"], "runs-on: [self-hosted, pod:host] names no backend"],
    [["self-hosted", "${{ inputs.where }}"], "runs-on: [self-hosted, ${{ inputs.where }}] names no backend"],
    [["self-hosted", "constructor"], "runs-on: [self-hosted, constructor] names no backend"],
    [["self-hosted", "pod", "vm"], "runs-on: [self-hosted, pod, vm] names more than one backend"],
    [["vm-dev", "self-hosted", "pod"], "runs-on: [vm-dev, self-hosted, pod] names more than one backend"],
    [["self-hosted", "vm", "vm-dev"], "runs-on: [self-hosted, vm, vm-dev] names more than one backend"],
  ];
  for (const [runsOn, reason] of refused) {
    it(`B-02 refuses [${runsOn.join(", ")}] and says what was asked`, () => {
      assert.equal(reasonOf(runsOn), reason);
    });
  }
});

describe("declared labels", () => {
  it("B-25 are bare names: self-hosted and those of the selected workers, the VM's as configured", () => {
    assert.deepEqual(declaredLabels(["pod"], "vm"), ["self-hosted", "pod"]);
    assert.deepEqual(declaredLabels(["vm"], "vm-dev"), ["self-hosted", "vm-dev"]);
    assert.deepEqual(declaredLabels(["pod", "vm"], "vm"), ["self-hosted", "pod", "vm"]);
    assert.deepEqual(declaredLabels([], "vm"), ["self-hosted"]);
  });

  it("B-25 bring only jobs that are refused or that a selected worker can run", () => {
    const backends = fc.subarray([...backendKinds], { minLength: 1 });
    fc.assert(
      fc.property(
        backends,
        fc.constantFrom("vm", "vm-dev"),
        fc.infiniteStream(fc.boolean()),
        (kinds, vm, some) => {
          const runsOn = declaredLabels(kinds, vm).filter(() => some.next().value);
          const requirement = requirementOf(runsOn);
          assert.ok(!requirement.ok || kinds.includes(requirement.backend));
        },
      ),
    );
  });

  it("B-25 are told to a person as the values of runs-on that are taken", () => {
    assert.equal(offeredRunsOn(["pod", "vm"], "vm"), "[self-hosted, pod] or [self-hosted, vm]");
    assert.equal(offeredRunsOn(["vm"], "vm-dev"), "[self-hosted, vm-dev]");
  });
});

describe("backend kind", () => {
  it("is pod or vm and nothing else", () => {
    assert.deepEqual(["pod", "vm"].filter(isBackendKind), ["pod", "vm"]);
    assert.deepEqual(["", "vm-dev", "Pod", "pod ", "local", "toString"].filter(isBackendKind), []);
  });
});
