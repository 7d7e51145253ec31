import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { type AssignmentRecord, beginAttempt, finish } from "../../../controller/assignment/record.ts";
import { type Assignments, createAssignments } from "../../../controller/lifecycle/assignments.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { createFakeRecordStore, type FakeRecordStore } from "../../fakes/fake-record-store.ts";
import { anAssignment, anAttempt, aRecord, testStart } from "../../support/builders.ts";

const assignment = anAssignment();
const { id } = assignment;
const never = new AbortController().signal;
const offer = { assignment, fetchedAt: testStart, sequence: 1, compressedTask: Buffer.from("the task") };
const begin = (nonce: string) => (record: AssignmentRecord) => beginAttempt(record, nonce, 1) ?? record;
const nonce = anAttempt().nonce;
const otherNonce = anAttempt({ number: 7 }).nonce;
const claimedRecord = aRecord({
  phase: {
    name: "claimed",
    attempt: anAttempt(),
    claim: { instance: "instance-of-the-first", logRows: 0, at: 1 },
  },
});

describe("the live assignments", () => {
  let store: FakeRecordStore;
  let assignments: Assignments;
  beforeEach(() => {
    store = createFakeRecordStore();
    assignments = createAssignments(store);
  });
  const change = (next: (record: AssignmentRecord) => AssignmentRecord) =>
    assignments.within(id, () => assignments.change(id, next, never));

  describe("offers", () => {
    it("B-70 takes the same assignment twice, also at once, and writes one record", async () => {
      const all = await Promise.all([assignments.offer(offer, never), assignments.offer(offer, never)]);
      assert.deepEqual(
        [...all, await assignments.offer({ ...offer, sequence: 9 }, never)],
        ["taken", "taken", "taken"],
      );
      assert.deepEqual(store.writes, ["queued"]);
      assert.equal(assignments.get(id)?.record.sequence, 1);
    });

    for (const [what, other] of [
      ["repository", anAssignment({ repository: "acme/gears" })],
      ["job", anAssignment({ jobKey: "deploy" })],
      ["backend", anAssignment({ backend: "vm" })],
      ["trust", anAssignment({ trust: "fork" })],
    ] as const) {
      it(`B-70 refuses one of another ${what} under the same id, and keeps the first`, async () => {
        await assignments.offer(offer, never);
        const conflicting = { ...offer, assignment: other, compressedTask: Buffer.from("another task") };
        assert.equal(await assignments.offer(conflicting, never), "conflict");
        assert.deepEqual(assignments.get(id)?.record.assignment, assignment);
        assert.deepEqual(assignments.get(id)?.compressedTask, offer.compressedTask);
      });
    }

    it("B-70 refuses one that conflicts with a recovered record or with one that another wrote meanwhile", async () => {
      assignments.restore({ record: aRecord(), revision: 1 });
      const conflicting = { ...offer, assignment: anAssignment({ jobKey: "deploy" }) };
      assert.equal(await assignments.offer(conflicting, never), "conflict");
      assert.equal(assignments.get(id)?.compressedTask, undefined);
      const fresh = createAssignments(store);
      store.overwrite(aRecord());
      assert.equal(await fresh.offer(conflicting, never), "conflict");
    });

    it("B-70 completes a recovered assignment with its task", async () => {
      assignments.restore({ record: aRecord(), revision: 1 });
      assert.equal(assignments.get(id)?.compressedTask, undefined);
      assert.equal(await assignments.offer(offer, never), "taken");
      assert.deepEqual(assignments.get(id)?.compressedTask, offer.compressedTask);
      assert.deepEqual(store.writes, [], "the record is there already");
    });

    it("B-70 is claimed if the record says so, and then the task is nobody's but the executor's", async () => {
      assignments.restore({ record: claimedRecord, revision: 1 });
      assert.equal(await assignments.offer(offer, never), "taken");
      assert.equal(assignments.get(id)?.record.phase.name, "claimed");
      assert.equal(assignments.get(id)?.compressedTask, undefined);
    });

    it("knows nothing of an assignment whose record could not be written", async () => {
      store.failNext("create", new Error("no answer"));
      await assert.rejects(assignments.offer(offer, never));
      assert.equal(assignments.get(id), undefined);
      assert.equal(await assignments.offer(offer, never), "taken");
    });

    it("keeps nothing else of an offer in the record", async () => {
      const delivered = { ...offer, kind: "assignment", deliveryCount: 1 };
      await assignments.offer(delivered, never);
      assert.deepEqual(store.stored.get(id)?.record, aRecord());
    });

    it("takes its own record again whose answer got lost", async () => {
      store.failNext("create", new Error("no answer"), { done: true });
      await assert.rejects(assignments.offer(offer, never));
      assert.equal(await assignments.offer(offer, never), "taken");
      assert.deepEqual(assignments.get(id)?.compressedTask, offer.compressedTask);
    });
  });

  it("B-71 resolves an assignment only by its id and its SPIFFE ID together", async () => {
    await assignments.offer(offer, never);
    const other = anAssignment({ taskId: 43n, jobKey: "deploy" });
    await assignments.offer({ ...offer, assignment: other }, never);
    assert.equal(assignments.resolve(id, assignment.spiffeId)?.record.assignment, assignment);
    assert.equal(assignments.resolve(id, other.spiffeId), undefined);
    assert.equal(assignments.resolve(other.id, assignment.spiffeId), undefined);
    assert.equal(assignments.resolve("gitea-task-44", assignment.spiffeId), undefined);
  });

  describe("changes", () => {
    it("are stored before they are known", async () => {
      await assignments.offer(offer, never);
      store.failNext("update", new Error("no answer"));
      await assert.rejects(change(begin(nonce)));
      assert.equal(assignments.get(id)?.record.phase.name, "queued");
      await change(begin(nonce));
      assert.equal(assignments.get(id)?.record.phase.name, "starting");
      assert.deepEqual(store.stored.get(id)?.record, assignments.get(id)?.record);
    });

    it("are not written when nothing changes", async () => {
      await assignments.offer(offer, never);
      await change((record) => record);
      assert.deepEqual(store.writes, ["queued"]);
    });

    it("adopt what another wrote, and are decided on afresh", async () => {
      await assignments.offer(offer, never);
      store.overwrite(claimedRecord);
      const seen: string[] = [];
      const stored = await change((record) => {
        seen.push(record.phase.name);
        return beginAttempt(record, otherNonce, 1) ?? record;
      });
      assert.deepEqual(seen, ["queued", "claimed"]);
      assert.deepEqual(stored, claimedRecord);
      assert.equal(assignments.get(id)?.compressedTask, undefined, "it is claimed");
    });

    it("keep the task in hand when an unclaimed record is adopted", async () => {
      await assignments.offer(offer, never);
      store.overwrite(aRecord({ rowsBegun: true }));
      await change(begin(nonce));
      assert.equal(assignments.get(id)?.record.rowsBegun, true);
      assert.deepEqual(assignments.get(id)?.compressedTask, offer.compressedTask);
    });

    it("I10 write a lost record anew from memory", async () => {
      await assignments.offer(offer, never);
      await change(begin(nonce));
      store.lose();
      const stored = await change((record) => finish(record, "success", 2));
      assert.equal(stored.phase.name, "finished");
      assert.deepEqual(store.stored.get(id)?.record, stored);
    });

    it("find an own write again whose answer got lost, and begin one attempt only", async () => {
      await assignments.offer(offer, never);
      store.failNext("update", new Error("no answer"), { done: true });
      await assert.rejects(change(begin(nonce)));
      const stored = await change(begin(nonce));
      assert.deepEqual(stored.phase, { name: "starting", attempt: anAttempt(), since: 1 });
    });

    it("give up when somebody else writes each time", async () => {
      await assignments.offer(offer, never);
      let others = 0;
      await assert.rejects(
        change((record) => {
          store.overwrite(aRecord({ sequence: 100 + ++others }));
          return begin(nonce)(record);
        }),
        /changed by somebody else 5 times in a row/,
      );
      assert.equal(others, 5);
    });

    it("of an assignment that is not known are an error", async () => {
      await assert.rejects(change(begin(nonce)), /gitea-task-42 is not known/);
    });

    it("wake those who wait for one", async () => {
      let woken = 0;
      const wait = async () => {
        await assignments.changed(never);
        woken++;
      };
      const waits = [wait(), wait()];
      await settle();
      assert.equal(woken, 0);
      await assignments.offer(offer, never);
      await Promise.all(waits);
      assert.equal(woken, 2);
    });
  });

  it("forgets an assignment only when its record is gone", async () => {
    await assignments.offer(offer, never);
    store.failNext("remove", new Error("no answer"));
    await assert.rejects(assignments.remove(id, never));
    assert.notEqual(assignments.get(id), undefined);
    await assignments.remove(id, never);
    assert.equal(assignments.get(id), undefined);
    assert.equal(store.stored.size, 0);
    assert.deepEqual(assignments.all(), []);
  });
});
