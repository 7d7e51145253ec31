import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { headers } from "nats";
import { readStoredAfter } from "../../controller/platform/jetstream.ts";
import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { FakeJob } from "../fakes/fake-gitea-model.ts";
import { type CoreOnJetStream, useCoreOnJetStream } from "../support/core-on-jetstream.ts";
import { eventually } from "../support/eventually.ts";
import { type JetStreamUnderTest, soon, useJetStream } from "../support/jetstream.ts";
import { useNats } from "../support/nats.ts";

const runsOn = ["self-hosted", "pod"];

describe("bad messages on a real stream", () => {
  const nats = useNats();
  const jetStream = useJetStream(nats);
  const createCore = useCoreOnJetStream();

  const put = ({ link, settings }: JetStreamUnderTest, data: Uint8Array, last = "pod") =>
    link.nats.jetstream().publish(`${settings.subjectBase}.${last}`, data);
  const onStream = async ({ link, settings }: JetStreamUnderTest) => {
    const reader = { link, stream: settings.stream, timeoutMs: 5_000 };
    return Array.fromAsync(
      readStoredAfter(reader, { subject: `${settings.subjectBase}.*`, after: 0 }, soon()),
    );
  };
  const gone = (opened: JetStreamUnderTest, sequence: number) =>
    eventually(`message ${sequence} is gone`, async () =>
      (await onStream(opened)).every(({ seq }) => seq !== sequence),
    );
  const empty = (opened: JetStreamUnderTest) =>
    eventually("nothing is on the stream", async () => (await onStream(opened)).length === 0);

  /** The job runs as if nothing were wrong. */
  async function runs(one: CoreOnJetStream, job: FakeJob): Promise<void> {
    const record = await one.record(job, ({ phase }) => phase.name === "starting");
    const id = record.assignment.taskId;
    await one.executor(record).updateTask({ state: { id, result: Result.SUCCESS } });
    assert.equal(one.model.shown(job).job, "success");
  }
  async function fails(one: CoreOnJetStream, job: FakeJob, row: RegExp): Promise<void> {
    await eventually("the job has failed", () => one.model.shown(job).job === "failure");
    assert.match(job.task?.log.join("\n") ?? "", row);
  }
  /** A task that was fetched and stored by a controller that has ended before anything ran. */
  async function leftByAnother(opened: JetStreamUnderTest) {
    const one = createCore(opened, { capacity: 1, times: { retryMs: 600_000 } });
    one.backend.bindable = false;
    await one.start();
    const job = one.model.addJob({ runsOn });
    await one.record(job);
    await one.stop();
    const [message] = await onStream(opened);
    assert.ok(message !== undefined);
    one.backend.world.stored.clear();
    return { one, job, message };
  }
  const bucketOf = ({ link, settings }: JetStreamUnderTest) =>
    link.nats.jetstream().views.kv(`${settings.stream}_STATE`, { bindOnly: true });
  const manager = ({ link }: JetStreamUnderTest) => link.nats.jetstreamManager();

  const garbage: readonly (readonly [what: string, data: Uint8Array])[] = [
    ["nothing", Buffer.alloc(0)],
    ["bytes", Buffer.from("ff00".repeat(2_000), "hex")],
    ["another program's JSON", Buffer.from('{"specversion":"1.0","type":"order.placed"}\n{}')],
    ["a line without an end", Buffer.from(`{"version":1${" ".repeat(100_000)}`)],
    ["a version that is none", Buffer.from('{"version":"one","id":"gitea-task-1"}\n')],
    ["an assignment that was never ours", Buffer.from('{"version":1,"id":"gitea-task-77"}\n')],
  ];

  for (const at of ["at the start", "while it runs"] as const)
    it(`that are no assignment are rejected for good, and stop nothing: ${at}`, async () => {
      const opened = await jetStream.open({ capacity: 1 });
      const one = createCore(opened, { capacity: 1 });
      if (at === "while it runs") await one.start();
      for (const [, data] of garbage) await put(opened, data);
      const job = one.model.addJob({ runsOn });
      if (at === "at the start") await one.start();
      await runs(one, job);
      await empty(opened);
      const told = one.log.lines.map(({ fields }) => String(fields["error"]));
      assert.equal(told.filter((error) => /message \d+ is no assignment/.test(error)).length, garbage.length);
      assert.doesNotMatch(one.log.text(), /order\.placed/);
    });

  it("under a subject that is no backend's stop nothing", async () => {
    const opened = await jetStream.open();
    const one = createCore(opened);
    await put(opened, Buffer.from("hello"), "nobody");
    await one.start();
    await runs(one, one.model.addJob({ runsOn }));
    await eventually("only that is left", async () => (await onStream(opened)).length === 1);
  });

  it("of another version fail their task by name if nothing else knows it: found at the start", async () => {
    const opened = await jetStream.open();
    const { one, job, message } = await leftByAnother(opened);
    await (await manager(opened)).streams.purge(opened.settings.stream);
    await (await bucketOf(opened)).purge(`gitea-task-${job.task?.id}`);
    const { seq } = await put(opened, ofVersion(2, message.data));
    const next = createCore(opened, { after: one });
    await next.start();
    await fails(
      next,
      job,
      /This job never started.*Seen: its message cannot be read: version 2 is not known/s,
    );
    await gone(opened, seq);
    assert.equal(job.task?.ends, 1);
    assert.equal(next.core.figures.failures()["queue_lost"], 1);
    await runs(next, next.model.addJob({ runsOn }));
  });

  it("of another version fail their task by name if nothing else knows it: come later", async () => {
    const opened = await jetStream.open();
    const { one, job, message } = await leftByAnother(opened);
    await (await manager(opened)).streams.purge(opened.settings.stream);
    await (await bucketOf(opened)).purge(`gitea-task-${job.task?.id}`);
    const next = createCore(opened, { after: one });
    await next.start();
    const { seq } = await put(opened, ofVersion(0, message.data));
    await fails(next, job, /Seen: its message cannot be read: version 0 is not known/);
    await gone(opened, seq);
    assert.equal(job.task?.ends, 1);
  });

  it("of another version fail a task whose record waits for it, since no copy is left", async () => {
    const opened = await jetStream.open();
    const { one, job, message } = await leftByAnother(opened);
    await (await manager(opened)).streams.deleteMessage(opened.settings.stream, message.seq);
    await put(opened, ofVersion(2, message.data));
    const next = createCore(opened, { after: one });
    await next.start();
    await fails(next, job, /Reason: queue_lost/);
    await empty(opened);
    assert.equal(job.task?.ends, 1);
  });

  it("that somebody has changed do not pass for the one that they were", async () => {
    const opened = await jetStream.open();
    const { one, job, message } = await leftByAnother(opened);
    const text = Buffer.from(message.data).toString("latin1");
    const forged = Buffer.from(text.replaceAll("acme/widgets", "evil/gadgets"), "latin1");
    assert.notDeepEqual(forged, Buffer.from(message.data));
    await put(opened, forged);
    const next = createCore(opened, { after: one });
    await next.start();
    await runs(next, job);
    await empty(opened);
  });

  it("that come twice, or under other headers, start nothing twice", async () => {
    const opened = await jetStream.open();
    const { one, job, message } = await leftByAnother(opened);
    const subject = `${opened.settings.subjectBase}.pod`;
    const own = headers();
    own.set("Nats-Msg-Id", "somebody-else's");
    await opened.link.nats.jetstream().publish(subject, message.data, { headers: own });
    await put(opened, message.data);
    const next = createCore(opened, { after: one });
    await next.start();
    await eventually("its executor is there", () => next.backend.called("create").length > 0);
    await runs(next, job);
    await empty(opened);
    assert.equal(next.backend.called("create").length, 1);
    assert.equal(job.task?.ends, 1);
  });
});

/** The same message as another version would have written it. */
function ofVersion(version: number, data: Uint8Array): Uint8Array {
  const bytes = Buffer.from(data);
  const end = bytes.indexOf("\n");
  const line = bytes.subarray(0, end).toString().replace('"version":1,', `"version":${version},`);
  return Buffer.concat([Buffer.from(line), bytes.subarray(end)]);
}
