import assert from "node:assert/strict";
import { access, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import { withLock } from "../../../scripts/peers/lock.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";

describe("the lock on a build", () => {
  let folder = "";
  let file = "";
  const { signal } = new AbortController();
  const clock = createFakeClock();
  const take = async (
    work: () => Promise<string>,
    deadline = 10_000,
    onWait: (owner: number) => void = () => undefined,
  ) => await withLock(file, { clock, deadline, onWait }, work, signal);

  /** Returns when the lock is taken; it is held until `until`. */
  const takeAndHold = async (until: Promise<string>) => {
    const held = Promise.withResolvers<boolean>();
    const end = take(() => {
      held.resolve(true);
      return until;
    });
    await held.promise;
    return { end };
  };

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "lock-"));
    file = join(folder, "peer.lock");
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it("is held during the work and gone after it, also when the work fails", async () => {
    assert.equal(await take(async () => (await access(file), "held")), "held");
    await assert.rejects(
      take(() => Promise.reject(new Error("broken"))),
      /broken/,
    );
    assert.deepEqual(await readdir(folder), []);
  });

  it("lets the second wait for the first", async () => {
    const first = Promise.withResolvers<string>();
    const holder = await takeAndHold(first.promise);
    const owners: number[] = [];
    const order: string[] = [];
    const secondDone = take(
      async () => (order.push("second"), "second"),
      10_000,
      (owner) => owners.push(owner),
    );
    await clock.waiting();
    order.push("first");
    first.resolve("first");
    assert.equal(await holder.end, "first");
    await clock.step(1_000);
    assert.equal(await secondDone, "second");
    assert.deepEqual(order, ["first", "second"]);
    assert.deepEqual(owners, [process.pid]);
  });

  it("is taken over from a process that is gone, or whose pid is another's now", async () => {
    const dead = { pid: 2 ** 22 + 1, started: "1" };
    const reused = { pid: process.pid, started: "1" };
    for (const owner of [JSON.stringify(dead), JSON.stringify(reused), "", "{"]) {
      await writeFile(file, owner);
      assert.equal(await take(() => Promise.resolve("taken")), "taken");
      assert.deepEqual(await readdir(folder), []);
    }
  });

  it("gives up at the deadline and names the file", async () => {
    const first = Promise.withResolvers<string>();
    const holder = await takeAndHold(first.promise);
    await assert.rejects(
      take(() => Promise.resolve("never"), 20),
      (error: Error) => error.message.includes(`waiting for the lock ${file} took longer`),
    );
    first.resolve("done");
    await holder.end;
    assert.deepEqual(await readdir(folder), []);
  });
});
