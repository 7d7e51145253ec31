import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import type { AssignmentEvent } from "../../../controller/assignment/event.ts";
import {
  type Applied,
  type Assignments,
  createAssignments,
  type StoredChange,
} from "../../../controller/lifecycle/assignments.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { createFakeRecordStore, type FakeRecordStore } from "../../fakes/fake-record-store.ts";
import { anAssignment, anAttempt, aRecord, testStart } from "../../support/builders.ts";
import { anEvent, inPhase } from "../../support/phases.ts";

const assignment = anAssignment();
const { id } = assignment;
const never = new AbortController().signal;
const offer = {
  assignment,
  fetchedAt: testStart,
  sequence: 1,
  compressedTask: Buffer.from("the task"),
  isNew: true,
};
const begin = (nonce: string): AssignmentEvent => ({ ...anEvent.attempt_begun, nonce });
const { nonce } = anAttempt();
const otherNonce = anAttempt({ number: 7 }).nonce;
const claimedRecord = inPhase("claimed");
const clock = { now: () => testStart + 1 };
const orphan = { assignment, attempt: anAttempt({ number: 2 }), createdAt: testStart - 9 };

describe("the live assignments", () => {
  let store: FakeRecordStore;
  let assignments: Assignments;
  let changes: StoredChange[];
  beforeEach(() => {
    store = createFakeRecordStore();
    changes = [];
    assignments = createAssignments({ store, clock, onChange: (change) => void changes.push(change) });
  });
  const apply = (event: AssignmentEvent): Promise<Applied> =>
    assignments.within(id, () => assignments.apply(id, event, never));
  const adopt = (message?: Omit<typeof offer, "assignment">) =>
    assignments.within(id, () =>
      assignments.adopt({ ...orphan, ...(message === undefined ? {} : { message }) }, never),
    );

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
      const fresh = createAssignments({ store, clock });
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

    it("I11 takes it that rows of ours may be in the log, unless it was just fetched", async () => {
      const { isNew: _, ...message } = offer;
      await assignments.offer(message, never);
      assert.equal(assignments.get(id)?.record.rowsBegun, true);
      const other = anAssignment({ taskId: 43n });
      await assignments.offer({ ...offer, assignment: other }, never);
      assert.equal(assignments.get(other.id)?.record.rowsBegun, false);
    });

    it("takes one whose record another controller removed while it was made", async () => {
      let first = true;
      const passing: typeof store = {
        ...store,
        create: async (record, signal) => {
          const write = first
            ? ({ kind: "conflict", current: undefined } as const)
            : store.create(record, signal);
          first = false;
          return write;
        },
      };
      const live = createAssignments({ store: passing, clock });
      assert.equal(await live.offer(offer, never), "taken");
      assert.equal(store.stored.size, 1);
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
      await assert.rejects(apply(begin(nonce)));
      assert.equal(assignments.get(id)?.record.phase.name, "queued");
      const { record, ignored } = await apply(begin(nonce));
      assert.equal(ignored, undefined);
      assert.equal(assignments.get(id)?.record, record);
      assert.equal(record.phase.name, "starting");
      assert.deepEqual(store.stored.get(id)?.record, record);
    });

    it("are not written when the event is ignored, and the rule is told", async () => {
      await assignments.offer(offer, never);
      const { record, ignored } = await apply(anEvent.accepted);
      assert.equal(ignored, "no end is decided");
      assert.equal(record, assignments.get(id)?.record);
      assert.deepEqual(store.writes, ["queued"]);
      assert.equal(changes.length, 1);
    });

    it("adopt what another wrote, and are decided on afresh", async () => {
      await assignments.offer(offer, never);
      store.overwrite(claimedRecord);
      const { record, ignored } = await apply(begin(otherNonce));
      assert.match(ignored ?? "", /ends all attempts/);
      assert.deepEqual(record, claimedRecord);
      assert.equal(assignments.get(id)?.compressedTask, undefined, "it is claimed");
    });

    it("keep the task in hand when an unclaimed record is adopted", async () => {
      await assignments.offer(offer, never);
      store.overwrite(aRecord({ rowsBegun: true }));
      await apply(begin(nonce));
      assert.equal(assignments.get(id)?.record.rowsBegun, true);
      assert.deepEqual(assignments.get(id)?.compressedTask, offer.compressedTask);
    });

    it("I10 write a lost record anew from memory", async () => {
      await assignments.offer(offer, never);
      await apply(begin(nonce));
      store.lose();
      const { record } = await apply(anEvent.failed);
      assert.equal(record.phase.name, "ending");
      assert.deepEqual(store.stored.get(id)?.record, record);
    });

    it("find an own write again whose answer got lost, and begin one attempt only", async () => {
      await assignments.offer(offer, never);
      store.failNext("update", new Error("no answer"), { done: true });
      await assert.rejects(apply(begin(nonce)));
      const { record, ignored } = await apply(begin(nonce));
      assert.equal(ignored, "it has begun already");
      assert.deepEqual(record.attempts, { begun: 1, burnt: 0 });
      assert.ok(record.phase.name === "starting");
      assert.deepEqual(record.phase.attempt, anAttempt());
    });

    it("give up when somebody else writes each time", async () => {
      let others = 0;
      assignments = createAssignments({
        store: {
          ...store,
          update: (...call) => {
            store.overwrite(aRecord({ sequence: 100 + ++others }));
            return store.update(...call);
          },
        },
        clock,
      });
      await assignments.offer(offer, never);
      await assert.rejects(apply(begin(nonce)), /changed by somebody else 5 times in a row/);
      assert.equal(others, 5);
    });

    it("of an assignment that is not known are an error", async () => {
      await assert.rejects(apply(begin(nonce)), /gitea-task-42 is not known/);
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

    it("are told when they are stored, each once and in order, with what was before", async () => {
      await assignments.offer(offer, never);
      await assignments.offer(offer, never);
      await apply(begin(nonce));
      store.failNext("update", new Error("no answer"));
      await assert.rejects(apply(anEvent.failed));
      await apply(anEvent.failed);
      await apply(anEvent.accepted);
      await assignments.remove(id, never);
      assert.deepEqual(
        changes.map(({ event, before, after }) => [event, before?.phase.name, after.phase.name]),
        [
          ["offered", undefined, "queued"],
          ["attempt_begun", "queued", "starting"],
          ["failed", "starting", "ending"],
          ["accepted", "ending", "finished"],
          ["forgotten", "finished", "finished"],
        ],
      );
    });
  });

  describe("executors without a record", () => {
    it("I10 count as claimed: no other attempt ever begins", async () => {
      const record = await adopt();
      assert.deepEqual(record.phase, { name: "adopted", attempt: orphan.attempt, since: clock.now() });
      assert.deepEqual([record.fetchedAt, record.sequence], [orphan.createdAt, 0]);
      assert.deepEqual(record.attempts, { begun: 2, burnt: 0 });
      assert.deepEqual(store.stored.get(id)?.record, record);
      assert.notEqual((await apply(begin(nonce))).ignored, undefined);
      assert.deepEqual(
        changes.map(({ event }) => event),
        ["orphan_found"],
      );
    });

    it("I10 get their task from its message if that is there, until one claims", async () => {
      const { assignment: _, ...message } = { ...offer, sequence: 9 };
      const record = await adopt(message);
      assert.deepEqual([record.fetchedAt, record.sequence], [offer.fetchedAt, 9]);
      assert.deepEqual(assignments.get(id)?.compressedTask, offer.compressedTask);
      await apply({ ...anEvent.claimed, attempt: orphan.attempt });
      assert.equal(assignments.get(id)?.record.phase.name, "claimed");
      assert.equal(assignments.get(id)?.compressedTask, undefined);
    });

    it("are adopted once, and never over a record that is there", async () => {
      store.overwrite(claimedRecord);
      assert.deepEqual(await adopt(), claimedRecord, "somebody else knew it");
      assert.deepEqual(await adopt(), claimedRecord);
      assert.deepEqual(store.writes, ["adopted"]);
      assert.deepEqual(changes, []);
    });
  });

  describe("keeping", () => {
    const keep = () => assignments.within(id, () => assignments.keep(id, never));

    it("I10 writes a record anew that is lost, and only then", async () => {
      await assignments.offer(offer, never);
      assert.equal(await keep(), false);
      store.lose();
      assert.equal(await keep(), true);
      assert.deepEqual(store.stored.get(id)?.record, aRecord());
      assert.deepEqual(assignments.get(id)?.compressedTask, offer.compressedTask);
      await apply(begin(nonce));
      assert.equal(store.stored.get(id)?.record.phase.name, "starting", "its revision is the new one");
    });

    it("takes in what another wrote, and writes nothing that is not known", async () => {
      await assignments.offer(offer, never);
      store.overwrite(claimedRecord);
      assert.equal(await keep(), false);
      assert.deepEqual(assignments.get(id)?.record, claimedRecord);
      await assignments.remove(id, never);
      assert.equal(await keep(), false);
      assert.equal(store.stored.size, 0);
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
