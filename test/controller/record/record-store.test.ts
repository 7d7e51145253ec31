import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { headers } from "nats";
import type { AssignmentRecord } from "../../../controller/assignment/record.ts";
import { NatsDisconnectedError, type NatsLink } from "../../../controller/platform/nats-connection.ts";
import { createStreams } from "../../../controller/queue/prepare-streams.ts";
import { wantedStreams } from "../../../controller/queue/streams.ts";
import { InvalidRecordError, RecordStoreUnavailableError } from "../../../controller/record/errors.ts";
import type { Versioned, WriteOutcome } from "../../../controller/record/record-store.ts";
import { anAssignment, anAttempt, aRecord } from "../../support/builders.ts";
import { soon, useJetStream } from "../../support/jetstream.ts";
import { useNats } from "../../support/nats.ts";

const id = anAssignment().id;
const starting = (number: number): AssignmentRecord =>
  aRecord({ phase: { name: "starting", attempt: anAttempt({ number }), since: 1, deadlineAt: 9 } });

function stored(outcome: WriteOutcome): Versioned {
  assert.ok(outcome.kind === "stored", `it is a ${outcome.kind}`);
  return outcome.stored;
}

/** Makes the same call until there is an outcome, as callers do. */
async function persistently<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof RecordStoreUnavailableError)) throw error;
    }
  }
}

const unavailable = (reason: RecordStoreUnavailableError["reason"]) => (error: unknown) =>
  error instanceof RecordStoreUnavailableError && error.reason === reason;

describe("the records", () => {
  const nats = useNats();
  const jetStream = useJetStream(nats);

  it("B-70 are written once, read back, and say the same after each change", async () => {
    const records = (await jetStream.open()).records();
    assert.equal(await records.get(id, soon()), undefined);
    const created = stored(await records.create(aRecord(), soon()));
    assert.deepEqual(await records.get(id, soon()), { record: aRecord(), revision: created.revision });
    const updated = stored(await records.update(starting(1), created.revision, soon()));
    assert.ok(updated.revision > created.revision);
    assert.deepEqual(await records.get(id, soon()), { record: starting(1), revision: updated.revision });
  });

  it("B-70 say what stands there when somebody else was first", async () => {
    const opened = await jetStream.open();
    const [one, other] = [opened.records(), opened.records()];
    const current = stored(await one.create(aRecord(), soon()));
    assert.deepEqual(await other.create(starting(1), soon()), { kind: "conflict", current });
    const second = stored(await other.update(starting(1), current.revision, soon()));
    assert.deepEqual(await one.update(starting(2), current.revision, soon()), {
      kind: "conflict",
      current: second,
    });
    assert.deepEqual(await one.get(id, soon()), second);
  });

  it("are another's even if it wrote the same words", async () => {
    const opened = await jetStream.open();
    const [one, other] = [opened.records(), opened.records()];
    const current = stored(await one.create(aRecord(), soon()));
    assert.deepEqual(await other.create(aRecord(), soon()), { kind: "conflict", current });
  });

  it("have one winner in every race of two stores", async () => {
    const opened = await jetStream.open();
    const stores = [opened.records(), opened.records()] as const;
    let current = stored(await stores[0].create(aRecord(), soon()));
    for (let number = 1; number <= 20; number++) {
      const attempt = (offset: number) => starting(number * 2 + offset);
      const outcomes = await Promise.all(
        stores.map((records, index) => records.update(attempt(index), current.revision, soon())),
      );
      const winners = outcomes.filter(({ kind }) => kind === "stored");
      assert.equal(winners.length, 1);
      const winner = stored(winners[0] as WriteOutcome);
      const loser = outcomes.find(({ kind }) => kind === "conflict");
      assert.deepEqual(loser, { kind: "conflict", current: winner });
      current = winner;
    }
    assert.deepEqual(await stores[0].get(id, soon()), current);
  });

  it("are removed without a trace, and may be written again", async () => {
    const { link, settings, records } = await jetStream.open();
    const store = records();
    stored(await store.create(aRecord(), soon()));
    assert.deepEqual(await store.remove(id, undefined, soon()), { kind: "removed" });
    assert.deepEqual(await store.remove(id, undefined, soon()), { kind: "removed" });
    const manager = await link.nats.jetstreamManager();
    assert.equal((await manager.streams.info(`KV_${settings.stream}_STATE`)).state.messages, 0);
    assert.equal(await store.get(id, soon()), undefined);
    stored(await store.create(aRecord(), soon()));
  });

  it("are not changed once they are removed", async () => {
    const records = (await jetStream.open()).records();
    const { revision } = stored(await records.create(aRecord(), soon()));
    await records.remove(id, revision, soon());
    assert.deepEqual(await records.update(starting(1), revision, soon()), {
      kind: "conflict",
      current: undefined,
    });
  });

  it("are removed at the given revision only", async () => {
    const records = (await jetStream.open()).records();
    const first = stored(await records.create(aRecord(), soon()));
    const second = stored(await records.update(starting(1), first.revision, soon()));
    assert.deepEqual(await records.remove(id, first.revision, soon()), { kind: "conflict", current: second });
    assert.deepEqual(await records.get(id, soon()), second);
    assert.deepEqual(await records.remove(id, second.revision, soon()), { kind: "removed" });
    assert.equal(await records.get(id, soon()), undefined);
  });

  it("are absent when they were deleted with another tool, and may be written again", async () => {
    const { link, settings, records } = await jetStream.open();
    const store = records();
    stored(await store.create(aRecord(), soon()));
    const bucket = await link.nats.jetstream().views.kv(`${settings.stream}_STATE`, { bindOnly: true });
    await bucket.delete(id);
    assert.equal(await store.get(id, soon()), undefined);
    assert.deepEqual(await store.list(soon()), { records: [], invalid: [], setAside: [] });
    stored(await store.create(aRecord(), soon()));
  });

  it("are listed all, the unreadable apart, other keys not at all", async () => {
    const { link, settings, records } = await jetStream.open();
    const store = records();
    const [first, second] = [1n, 2n].map((taskId) => aRecord({ assignment: anAssignment({ taskId }) }));
    const kept = [
      stored(await store.create(first as AssignmentRecord, soon())),
      stored(await store.create(second as AssignmentRecord, soon())),
    ];
    const put = (key: string, value: string) =>
      link.nats.jetstream().publish(`$KV.${settings.stream}_STATE.${key}`, value, { headers: headers() });
    const { data } = await (
      await link.nats.jetstreamManager()
    ).streams.getMessage(`KV_${settings.stream}_STATE`, { seq: 1 });
    await put("gitea-task-7", "hunter2");
    await put("gitea-task-8", Buffer.from(data).toString());
    await put("leader", "controller-0");
    await put("gitea-task-1.result.0", "a part of a result");
    assert.deepEqual(await store.list(soon()), {
      records: kept,
      invalid: [
        { key: "gitea-task-7", reason: "it is not JSON" },
        { key: "gitea-task-8", reason: "it is another assignment's" },
      ],
      setAside: [],
    });
    await assert.rejects(store.get("gitea-task-7", soon()), InvalidRecordError);
    assert.deepEqual(await store.remove("gitea-task-7", undefined, soon()), { kind: "removed" });
  });

  describe("where a value stands that is none", () => {
    const ofTask = (taskId: number) => aRecord({ assignment: anAssignment({ taskId: BigInt(taskId) }) });
    const open = async () => {
      const { link, settings, records, log } = await jetStream.open();
      const bucket = await link.nats.jetstream().views.kv(`${settings.stream}_STATE`, { bindOnly: true });
      return { store: records(), other: records(), bucket, log };
    };

    it("are written in its place when they are created, and the value is kept beside them for a person", async () => {
      const { store, bucket, log } = await open();
      for (const garbage of ["hunter2", "hunter3"]) {
        await bucket.put("gitea-task-7", garbage);
        const created = stored(await store.create(ofTask(7), soon()));
        const setAside = ["gitea-task-7.unreadable"];
        assert.deepEqual(await store.list(soon()), { records: [created], invalid: [], setAside });
        assert.equal((await bucket.get("gitea-task-7.unreadable"))?.string(), garbage);
        stored(await store.update({ ...ofTask(7), rowsBegun: true }, created.revision, soon()));
      }
      assert.ok(log.lines.some(({ fields }) => fields["kept"] === "gitea-task-7.unreadable"));
      assert.doesNotMatch(log.text(), /hunter/);
      await bucket.delete("gitea-task-7.unreadable");
      assert.deepEqual((await store.list(soon())).setAside, []);
    });

    it("are not changed: that may be a newer version's, and only who leads may put another in its place", async () => {
      const { store, bucket } = await open();
      const { revision } = stored(await store.create(ofTask(7), soon()));
      await bucket.put("gitea-task-7", "hunter2");
      await assert.rejects(
        store.update({ ...ofTask(7), rowsBegun: true }, revision, soon()),
        InvalidRecordError,
      );
      assert.equal((await bucket.get("gitea-task-7"))?.string(), "hunter2");
    });

    it("are created once, also when two controllers try at the same time", async () => {
      const { store, other, bucket } = await open();
      await bucket.put("gitea-task-7", "hunter2");
      const outcomes = await Promise.all([store, other].map((one) => one.create(ofTask(7), soon())));
      assert.deepEqual(outcomes.map(({ kind }) => kind).toSorted(), ["conflict", "stored"]);
      const [{ revision } = { revision: 0 }] = (await store.list(soon())).records;
      for (const outcome of outcomes)
        assert.equal(
          outcome.kind === "stored" ? outcome.stored.revision : outcome.current?.revision,
          revision,
        );
    });

    it("the last twenty are kept, and of each no more than a record can have", async () => {
      const { store, bucket } = await open();
      for (let task = 1; task <= 22; task++) {
        await bucket.put(`gitea-task-${task}`, "g".repeat(task === 22 ? 900_000 : 10));
        stored(await store.create(ofTask(task), soon()));
      }
      const { setAside } = await store.list(soon());
      const wanted = Array.from({ length: 20 }, (_, index) => `gitea-task-${index + 3}.unreadable`);
      assert.deepEqual(new Set(setAside), new Set(wanted));
      assert.equal((await bucket.get("gitea-task-22.unreadable"))?.length, 64 * 1024);
    });
  });

  it("are listed with what was written while they were", async () => {
    const opened = await jetStream.open();
    const records = opened.records();
    const created = [];
    for (const taskId of [1n, 2n, 3n]) {
      const record = aRecord({ assignment: anAssignment({ taskId }) });
      created.push(stored(await records.create(record, soon())));
    }
    const [{ record, revision }] = created as [Versioned];
    const [listed, updated] = await Promise.all([
      records.list(soon()),
      records.update({ ...record, rowsBegun: true }, revision, soon()),
    ]);
    const ids = listed.records.map(({ record: { assignment } }) => assignment.id);
    assert.deepEqual(ids.toSorted(), ["gitea-task-1", "gitea-task-2", "gitea-task-3"]);
    const again = await records.list(soon());
    assert.deepEqual(again.records.at(-1), stored(updated));
  });

  describe("when the server is slow or away", () => {
    it("are known as our own when the answer to the write got lost", async () => {
      const opened = await jetStream.open();
      const { log } = opened;
      const records = opened.records({ requestMs: 800 });
      const { revision } = stored(await records.create(aRecord(), soon()));
      await nats.pause();
      const updating = records.update(starting(1), revision, soon());
      await log.line("outcome of a record's write is open");
      nats.resume();
      const updated = stored(await updating);
      assert.equal(updated.revision, revision + 1);
      assert.deepEqual(await records.get(id, soon()), updated);
    });

    for (const arrives of [true, false]) {
      it(`are written once when a connection is lost ${arrives ? "after" : "before"} the write arrives`, async () => {
        const opened = await jetStream.open();
        const { revision } = stored(await opened.records().create(aRecord(), soon()));
        let losses = 1;
        const exchange: NatsLink["exchange"] = async (request, signal) => {
          if (losses-- <= 0) return opened.link.exchange(request, signal);
          if (arrives) await opened.link.exchange(request, signal);
          throw new NatsDisconnectedError("lost");
        };
        const records = opened.records({ connection: { ...opened.link, exchange } });
        const updated = stored(await records.update(starting(1), revision, soon()));
        assert.equal(updated.revision, revision + 1);
        assert.deepEqual(await records.get(id, soon()), updated);
      });
    }

    it("are known as our own when the call is made again after it gave up", async () => {
      const opened = await jetStream.open();
      const { revision } = stored(await opened.records().create(aRecord(), soon()));
      const records = opened.records({ requestMs: 100 });
      await nats.pause();
      await assert.rejects(records.update(starting(1), revision, soon()), unavailable("unreachable"));
      nats.resume();
      const updated = stored(await persistently(() => records.update(starting(1), revision, soon())));
      assert.equal(updated.revision, revision + 1, "it was written once");
    });

    it("are a conflict when we want another thing after a write that did arrive", async () => {
      const opened = await jetStream.open();
      const { revision } = stored(await opened.records().create(aRecord(), soon()));
      const records = opened.records({ requestMs: 100 });
      await nats.pause();
      await assert.rejects(records.update(starting(1), revision, soon()), unavailable("unreachable"));
      nats.resume();
      const current = { record: starting(1), revision: revision + 1 };
      const outcome = await persistently(() => records.update(starting(2), revision, soon()));
      assert.deepEqual(outcome, { kind: "conflict", current });
    });

    it("are unreachable during a restart, and as they were after it", async () => {
      const { log, records } = await jetStream.open();
      const store = records();
      const created = stored(await store.create(aRecord(), soon()));
      await nats.kill();
      await log.line("nats connection lost, reconnecting");
      await assert.rejects(store.get(id, soon()), unavailable("unreachable"));
      await assert.rejects(store.list(soon()), unavailable("unreachable"));
      await assert.rejects(store.update(starting(1), created.revision, soon()), unavailable("unreachable"));
      await assert.rejects(store.remove(id, undefined, soon()), unavailable("unreachable"));
      await nats.start();
      await log.line("nats connection is back");
      assert.deepEqual(await store.get(id, soon()), created);
      stored(await store.update(starting(1), created.revision, soon()));
    });

    it("stop being waited for when the signal is aborted", async () => {
      const opened = await jetStream.open();
      const records = opened.records();
      await nats.pause();
      const stop = new AbortController();
      const calls = [
        records.get(id, stop.signal),
        records.list(stop.signal),
        records.create(aRecord(), stop.signal),
        records.remove(id, undefined, stop.signal),
      ];
      const outcomes = Promise.allSettled(calls);
      stop.abort(new Error("enough"));
      const reasons = (await outcomes).map((outcome) =>
        outcome.status === "rejected" ? (outcome.reason as Error).message : outcome,
      );
      nats.resume();
      assert.deepEqual(reasons, ["enough", "enough", "enough", "enough"]);
    });
  });

  describe("when the bucket is lost", () => {
    it("are told from absent ones, by every call", async () => {
      const { link, settings, records } = await jetStream.open();
      const store = records();
      const { revision } = stored(await store.create(aRecord(), soon()));
      await (await link.nats.jetstreamManager()).streams.delete(`KV_${settings.stream}_STATE`);
      const lost = unavailable("bucket-lost");
      await assert.rejects(store.get(id, soon()), lost);
      await assert.rejects(store.list(soon()), lost);
      await assert.rejects(store.create(aRecord(), soon()), lost);
      await assert.rejects(store.update(starting(1), revision, soon()), lost);
      await assert.rejects(store.remove(id, revision, soon()), lost);
    });

    it("are absent in the one made anew, where an old revision counts for nothing", async () => {
      const { link, settings, records } = await jetStream.open();
      const store = records();
      const { revision } = stored(await store.create(aRecord(), soon()));
      await (await link.nats.jetstreamManager()).streams.delete(`KV_${settings.stream}_STATE`);
      await createStreams(link, wantedStreams(settings), soon());
      assert.deepEqual(await store.update(starting(1), revision, soon()), {
        kind: "conflict",
        current: undefined,
      });
      assert.equal(await store.get(id, soon()), undefined);
      stored(await store.create(starting(1), soon()));
    });

    it("are lost when the whole server comes back empty, until the bucket is made anew", async () => {
      const { link, log, settings, records } = await jetStream.open();
      const store = records();
      stored(await store.create(aRecord(), soon()));
      await nats.wipe();
      await log.line("nats connection is back");
      await assert.rejects(store.get(id, soon()), unavailable("bucket-lost"));
      await createStreams(link, wantedStreams(settings), soon());
      assert.equal(await store.get(id, soon()), undefined);
    });
  });
});
