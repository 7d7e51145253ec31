import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { describe, it } from "mocha";
import { ReportTooLargeError } from "../../../controller/assignment/errors.ts";
import type { StoredReport } from "../../../controller/assignment/record.ts";
import { describeError } from "../../../controller/platform/errors.ts";
import { NatsDisconnectedError, type NatsLink } from "../../../controller/platform/nats-connection.ts";
import { createStreams } from "../../../controller/queue/prepare-streams.ts";
import { wantedStreams } from "../../../controller/queue/streams.ts";
import { RecordStoreUnavailableError, ReportKeyMissingError } from "../../../controller/record/errors.ts";
import { Result, UpdateTaskRequestSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { anAssignment, aRecord } from "../../support/builders.ts";
import { type JetStreamUnderTest, soon, testKeyRing, useJetStream } from "../../support/jetstream.ts";
import { useNats } from "../../support/nats.ts";

const { id } = anAssignment();
const other = anAssignment({ taskId: 43n }).id;

/** The names in the bucket that begin with a report's. */
async function keysOf({ link, settings }: JetStreamUnderTest): Promise<readonly string[]> {
  const manager = await link.nats.jetstreamManager();
  const prefix = `$KV.${settings.stream}_STATE.`;
  const { state } = await manager.streams.info(`KV_${settings.stream}_STATE`, {
    subjects_filter: `${prefix}>`,
  });
  return Object.keys(state.subjects ?? {})
    .map((subject) => subject.slice(prefix.length))
    .toSorted();
}

/** Overwrites a key as somebody with another tool would. */
async function overwrite(
  { link, settings }: JetStreamUnderTest,
  key: string,
  value: Uint8Array,
): Promise<void> {
  await link.nats.jetstream().publish(`$KV.${settings.stream}_STATE.${key}`, value);
}

async function valueOf({ link, settings }: JetStreamUnderTest, key: string): Promise<Uint8Array> {
  const manager = await link.nats.jetstreamManager();
  const subject = `$KV.${settings.stream}_STATE.${key}`;
  return (await manager.streams.getMessage(`KV_${settings.stream}_STATE`, { last_by_subj: subject })).data;
}

describe("the reports", () => {
  // The server's own limit: a report is many times as large as a message may be.
  const nats = useNats({ maxPayload: 64 * 1024 });
  const jetStream = useJetStream(nats);

  it("are read back by another controller byte for byte, whatever their size", async () => {
    const opened = await jetStream.open();
    for (const size of [0, 1, 62 * 1024, 62 * 1024 + 1, 1_000_000]) {
      const bytes = randomBytes(size);
      const report = await opened.reports().put(id, "failure", bytes, soon());
      assert.deepEqual([report.result, report.bytes], ["failure", size]);
      assert.equal(report.parts, Math.max(1, Math.ceil(size / (62 * 1024))));
      const read = await opened.reports().get(id, report, soon());
      assert.ok(read !== undefined && bytes.equals(read), `${size} bytes`);
    }
  });

  it("keep fields that we do not know", async () => {
    const opened = await jetStream.open();
    const request = create(UpdateTaskRequestSchema, {
      state: { id: 42n, result: Result.SUCCESS },
      outputs: { a: "b" },
    });
    request.$unknown = [{ no: 1999, wireType: WireType.LengthDelimited, data: Uint8Array.of(3, 1, 2, 3) }];
    const report = await opened
      .reports()
      .put(id, "success", toBinary(UpdateTaskRequestSchema, request), soon());
    const read = await opened.reports().get(id, report, soon());
    assert.deepEqual(read && fromBinary(UpdateTaskRequestSchema, Uint8Array.from(read)), request);
  });

  it("are no records: a list of those does not see them", async () => {
    const opened = await jetStream.open();
    const records = opened.records();
    await records.create(aRecord(), soon());
    await opened.reports().put(id, "success", randomBytes(200_000), soon());
    const { records: listed, invalid } = await records.list(soon());
    assert.deepEqual([listed.length, invalid], [1, []]);
  });

  it("are stored where the controller's own bucket lets them", async () => {
    const opened = await jetStream.open();
    const { key } = await opened.reports().put(id, "success", randomBytes(100_000), soon());
    assert.deepEqual(await keysOf(opened), [`${id}.report.${key}.0`, `${id}.report.${key}.1`]);
  });

  it("are stored once when they are put again, and go on where the last try failed", async () => {
    const opened = await jetStream.open();
    const bytes = randomBytes(200_000);
    let failing: "before" | "after" | undefined;
    let sent = 0;
    const exchange: NatsLink["exchange"] = async (request, signal) => {
      const [fails] = [failing];
      if (++sent === 3) failing = undefined;
      if (sent === 3 && fails === "before") throw new NatsDisconnectedError("lost");
      const answer = await opened.link.exchange(request, signal);
      if (sent === 3 && fails === "after") throw new NatsDisconnectedError("lost");
      return answer;
    };
    for (const when of ["before", "after"] as const) {
      const reports = opened.reports({ connection: { ...opened.link, exchange } });
      [failing, sent] = [when, 0];
      await assert.rejects(reports.put(id, "success", bytes, soon()), RecordStoreUnavailableError);
      const report = await reports.put(id, "success", Buffer.from(bytes), soon());
      // The third of four parts once more, where it is there already a look at what stands there, and the fourth.
      const calls = when === "before" ? 5 : 6;
      assert.equal(sent, calls, when);
      assert.deepEqual(await reports.put(id, "success", bytes, soon()), report);
      assert.equal(sent, calls, "what is confirmed is not sent again");
      assert.deepEqual(await opened.reports().get(id, report, soon()), bytes);
      await reports.remove(id, soon());
    }
  });

  it("of another content or result are stored beside the first, under another name", async () => {
    const opened = await jetStream.open();
    const reports = opened.reports();
    const first = await reports.put(id, "success", Buffer.from("one"), soon());
    const second = await reports.put(id, "success", Buffer.from("two"), soon());
    const third = await reports.put(id, "failure", Buffer.from("two"), soon());
    assert.equal(new Set([first.key, second.key, third.key]).size, 3);
    assert.deepEqual(await reports.get(id, first, soon()), Buffer.from("one"));
    assert.deepEqual(await reports.get(id, third, soon()), Buffer.from("two"));
  });

  it("are refused above the limit, and nothing of them is stored", async () => {
    const opened = await jetStream.open();
    const reports = opened.reports({ maxBytes: 1000 });
    await assert.rejects(reports.put(id, "success", randomBytes(1001), soon()), ReportTooLargeError);
    assert.deepEqual(await keysOf(opened), []);
    await reports.put(id, "success", randomBytes(1000), soon());
  });

  it("are removed without a trace, all of one assignment and none of another", async () => {
    const opened = await jetStream.open();
    const reports = opened.reports();
    await opened.reports().put(id, "success", randomBytes(200_000), soon());
    const report = await reports.put(id, "success", randomBytes(200_000), soon());
    const kept = await reports.put(other, "success", Buffer.from("other"), soon());
    await opened.records().create(aRecord(), soon());
    await reports.remove(id, soon());
    await reports.remove(id, soon());
    assert.deepEqual(await keysOf(opened), [id, `${other}.report.${kept.key}.0`]);
    assert.equal(await reports.get(id, report, soon()), undefined);
  });

  it("that no record names are swept, those of others and those just being stored are not", async () => {
    const opened = await jetStream.open();
    const named = await opened.reports().put(id, "success", randomBytes(200_000), soon());
    await opened.reports().put(id, "failure", randomBytes(200_000), soon());
    await opened.reports().put(other, "failure", Buffer.from("x"), soon());
    await opened.records().create(aRecord(), soon());
    const reports = opened.reports();
    const fresh = await reports.put("gitea-task-44", "success", Buffer.from("y"), soon());
    assert.equal(await reports.sweep((assignment, key) => assignment === id && key === named.key, soon()), 2);
    const parts = [0, 1, 2, 3].map((part) => `${id}.report.${named.key}.${part}`);
    assert.deepEqual(await keysOf(opened), [id, ...parts, `gitea-task-44.report.${fresh.key}.0`].toSorted());
    assert.equal(await reports.sweep(() => true, soon()), 0);
  });

  describe("that somebody meddled with", () => {
    let opened: JetStreamUnderTest;
    let report: StoredReport;
    const put = async () => {
      opened = await jetStream.open();
      report = await opened.reports().put(id, "success", randomBytes(200_000), soon());
    };
    const key = (part: number) => `${id}.report.${report.key}.${part}`;
    const read = () => opened.reports().get(id, report, soon());

    it("are lost with any part of them", async () => {
      await put();
      const manager = await opened.link.nats.jetstreamManager();
      const stream = opened.settings.stream;
      await manager.streams.purge(`KV_${stream}_STATE`, { filter: `$KV.${stream}_STATE.${key(2)}` });
      assert.equal(await read(), undefined);
    });

    it("are lost when a byte is another one, or when it is no part at all", async () => {
      await put();
      const value = Buffer.from(await valueOf(opened, key(1)));
      value[value.length - 40] = (value[value.length - 40] ?? 0) ^ 1;
      for (const bad of [value, Buffer.from("garbage"), Buffer.from("{}\ngarbage"), Buffer.alloc(0)]) {
        await overwrite(opened, key(1), bad);
        assert.equal(await read(), undefined);
      }
    });

    it("are lost when a part is put in another one's place, or another report's", async () => {
      await put();
      await overwrite(opened, key(1), await valueOf(opened, key(2)));
      assert.equal(await read(), undefined);
      await put();
      const stranger = await opened.reports().put(other, "success", randomBytes(200_000), soon());
      await overwrite(opened, key(1), await valueOf(opened, `${other}.report.${stranger.key}.1`));
      assert.equal(await read(), undefined);
    });

    it("are lost when the record says another result than they were stored with", async () => {
      await put();
      assert.equal(await opened.reports().get(id, { ...report, result: "failure" }, soon()), undefined);
    });
  });

  it("wait for a key that is missing, and are read with any key of the ring", async () => {
    const opened = await jetStream.open();
    const bytes = randomBytes(1000);
    const report = await opened.reports({ keyRing: testKeyRing(1) }).put(id, "success", bytes, soon());
    const rotated = opened.reports({ keyRing: testKeyRing(2) });
    await assert.rejects(rotated.get(id, report, soon()), ReportKeyMissingError);
    assert.deepEqual(await opened.reports({ keyRing: testKeyRing(2, 1) }).get(id, report, soon()), bytes);
  });

  it("are unavailable while the server is away or the bucket is lost, and this controller's own are still there", async () => {
    const opened = await jetStream.open();
    const { log, link, settings } = opened;
    const reports = opened.reports();
    const bytes = randomBytes(1000);
    const report = await reports.put(id, "success", bytes, soon());
    await nats.kill();
    await log.line("nats connection lost, reconnecting");
    for (const call of [
      reports.put(other, "success", bytes, soon()),
      opened.reports().get(id, report, soon()),
      reports.remove(other, soon()),
      reports.sweep(() => true, soon()),
    ])
      await assert.rejects(call, RecordStoreUnavailableError);
    assert.deepEqual(await reports.get(id, report, soon()), bytes);
    await nats.wipe();
    await log.line("nats connection is back");
    await assert.rejects(opened.reports().get(id, report, soon()), { reason: "bucket-lost" });
    await createStreams(link, wantedStreams(settings), soon());
    assert.deepEqual(await reports.get(id, report, soon()), bytes);
    assert.equal(await opened.reports().get(id, report, soon()), undefined);
  });

  it("stop being waited for when the signal is aborted", async () => {
    const opened = await jetStream.open();
    const report = await opened.reports().put(id, "success", randomBytes(1000), soon());
    const reports = opened.reports();
    await nats.pause();
    const stop = new AbortController();
    const outcomes = Promise.allSettled([
      reports.put(id, "success", randomBytes(1000), stop.signal),
      reports.get(id, report, stop.signal),
      reports.remove(id, stop.signal),
      reports.sweep(() => true, stop.signal),
    ]);
    stop.abort(new Error("enough"));
    const reasons = (await outcomes).map((outcome) =>
      outcome.status === "rejected" ? (outcome.reason as Error).message : outcome,
    );
    nats.resume();
    assert.deepEqual(reasons, ["enough", "enough", "enough", "enough"]);
  });
});

describe("a report of many megabytes", () => {
  const nats = useNats();
  const jetStream = useJetStream(nats);

  it("is stored by a server with its default limits, and read back", async () => {
    const opened = await jetStream.open();
    const bytes = randomBytes(64 * 1024 * 1024);
    const report = await opened.reports().put(id, "success", bytes, AbortSignal.timeout(60_000));
    const read = await opened.reports().get(id, report, AbortSignal.timeout(60_000));
    assert.ok(read !== undefined && bytes.equals(read));
  });
});

describe("the outputs in a report", () => {
  const nats = useNats();
  const jetStream = useJetStream(nats);

  it("are in no file, subject, log line or error of theirs, though the assignment is in clear", async () => {
    const secret = "hunter2-hunter2-hunter2";
    const opened = await jetStream.open();
    const { link, settings, log } = opened;
    const sent = link.nats.subscribe(`$KV.${settings.stream}_STATE.>`);
    const request = create(UpdateTaskRequestSchema, { state: { id: 42n }, outputs: { password: secret } });
    const bytes = toBinary(UpdateTaskRequestSchema, request);
    assert.ok(Buffer.from(bytes).includes(secret), "the report holds it");
    const report = await opened.reports().put(id, "success", bytes, soon());
    const large = Buffer.concat(Array.from({ length: 60_000 }, () => Buffer.from(secret)));
    await opened.reports().put(id, "success", large, soon());
    const errors = [
      await opened
        .reports({ maxBytes: 10 })
        .put(id, "success", bytes, soon())
        .then(() => "it was stored", describeError),
      await opened
        .reports({ keyRing: testKeyRing(2) })
        .get(id, report, soon())
        .then(() => "it was read", describeError),
    ];
    assert.equal(await opened.reports().get(id, { ...report, bytes: 7 }, soon()), undefined);
    sent.unsubscribe();
    const seen: string[] = [];
    for await (const { subject, headers } of sent) seen.push(subject, JSON.stringify([...(headers ?? [])]));
    await nats.stop();
    const folder = join(dirname(nats.passwordFile), "jetstream");
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    const stored = await Promise.all(files.map(({ parentPath, name }) => readFile(join(parentPath, name))));
    const all = Buffer.concat([...stored, Buffer.from([...seen, ...errors, log.text()].join("\n"))]);
    assert.ok(all.includes(`"assignment":"${id}"`), "the files of the bucket were read");
    assert.match(errors.join(), /10 are possible,.* is sealed with key/);
    assert.equal(all.includes("hunter2"), false);
    assert.equal(all.includes("password"), false);
  });
});
