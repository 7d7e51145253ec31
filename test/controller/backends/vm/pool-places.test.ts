import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { BackendError } from "../../../../controller/backends/backend.ts";
import { createPoolPlaces } from "../../../../controller/backends/vm/pool-places.ts";
import type { Pool } from "../../../../controller/opensandbox/opensandbox-api.ts";

const { signal } = new AbortController();

function thePool(available?: number): Pool {
  return available === undefined
    ? { name: "ci-vm" }
    : { name: "ci-vm", places: { total: 8, allocated: 8 - available, available } };
}

function places(pool: () => Pool | undefined) {
  let now = 5_000;
  const one = createPoolPlaces({
    api: { pool: async () => pool() },
    pool: "ci-vm",
    times: { noPlaceMs: 5_000 },
    steady: () => now,
  });
  const pass = (ms: number) => {
    now += ms;
  };
  /** So many works begin and do not end; resolves with how many were let in. */
  const letIn = async (count: number) => {
    const ends = Promise.withResolvers<void>();
    let begun = 0;
    const works = Array.from({ length: count }, () =>
      one.within(() => {
        begun++;
        return ends.promise;
      }, signal),
    );
    await Promise.race([Promise.allSettled(works), new Promise((resolve) => setImmediate(resolve))]);
    ends.resolve();
    const outcomes = await Promise.allSettled(works);
    return { begun, refused: outcomes.flatMap((each) => (each.status === "rejected" ? [each.reason] : [])) };
  };
  return { ...one, pass, letIn };
}

const noVm = (error: unknown) =>
  error instanceof BackendError && error.kind === "retryable" && error.reason === "no_vm";

describe("places in the pool of VMs", () => {
  for (const [available, asked, begun] of [
    [3, 3, 3],
    [3, 5, 3],
    [1, 2, 1],
    [0, 3, 1],
    [undefined, 3, 1],
  ] as const)
    it(`let in ${begun} of ${asked} creates at once where ${available ?? "an unknown number"} are ready`, async () => {
      const outcome = await places(() => thePool(available)).letIn(asked);
      assert.equal(outcome.begun, begun);
      assert.ok(outcome.refused.every(noVm), String(outcome.refused));
    });

  it("are given back, also by a create that failed", async () => {
    const one = places(() => thePool(1));
    await assert.rejects(
      one.within(() => Promise.reject(new Error("no answer")), signal),
      /no answer/,
    );
    assert.equal((await one.letIn(1)).begun, 1);
    assert.equal((await one.letIn(1)).begun, 1);
  });

  it("are not asked for again before the server said, when there was none", async () => {
    const one = places(() => thePool(4));
    one.full(30_000);
    one.pass(29_999);
    const { begun, refused } = await one.letIn(1);
    assert.equal(begun, 0);
    assert.ok(noVm(refused[0]));
    one.pass(1);
    assert.equal((await one.letIn(1)).begun, 1);
    one.full(undefined);
    one.pass(4_999);
    assert.equal((await one.letIn(1)).begun, 0);
    one.pass(1);
    assert.equal((await one.letIn(1)).begun, 1);
    one.full(1_000_000_000);
    one.pass(300_000);
    assert.equal((await one.letIn(1)).begun, 1, "nobody is shut out for ever");
  });

  it("are none where there is no pool, which is the backend's trouble and not the job's", async () => {
    await assert.rejects(
      places(() => undefined).within(() => Promise.resolve(), signal),
      (error) => error instanceof BackendError && error.kind === "retryable" && error.reason === undefined,
    );
  });
});
