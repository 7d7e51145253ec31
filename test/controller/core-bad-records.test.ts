import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { currentAttempt } from "../../controller/assignment/record.ts";
import { troubleChecks } from "../../controller/health/troubles.ts";
import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import { executorName } from "../../controller/assignment/executor-metadata.ts";
import type { FakeJob } from "../fakes/fake-gitea-model.ts";
import {
  type CoreOnJetStream,
  type CoreOnJetStreamOptions,
  useCoreOnJetStream,
} from "../support/core-on-jetstream.ts";
import { eventually } from "../support/eventually.ts";
import { type JetStreamUnderTest, useJetStream } from "../support/jetstream.ts";
import { useNats } from "../support/nats.ts";

const runsOn = ["self-hosted", "pod"];
const id = "gitea-task-1";
const kept = `${id}.unreadable`;

type Json = { record: Record<string, unknown> & { phase: Record<string, unknown> } };

describe("records in a real bucket that somebody has edited", () => {
  const nats = useNats();
  const jetStream = useJetStream(nats);
  const createCore = useCoreOnJetStream();

  const bucketOf = ({ link, settings }: JetStreamUnderTest) =>
    link.nats.jetstream().views.kv(`${settings.stream}_STATE`, { bindOnly: true });
  const read = async (opened: JetStreamUnderTest) => {
    const entry = await (await bucketOf(opened)).get(id);
    assert.ok(entry !== null, "there is no record");
    return entry.json<Json>();
  };
  const edit = async (opened: JetStreamUnderTest, change: (json: Json) => unknown) => {
    const json = await read(opened);
    change(json);
    await (await bucketOf(opened)).put(id, JSON.stringify(json));
  };
  const keys = async (opened: JetStreamUnderTest) => Array.fromAsync(await (await bucketOf(opened)).keys());

  /** A controller with one job, which its executor has claimed unless `phase` says something else. */
  async function withJob(
    opened: JetStreamUnderTest,
    options: CoreOnJetStreamOptions & { readonly phase?: "starting" | "claimed" } = {},
  ) {
    const { phase = "claimed", ...rest } = options;
    const one = createCore(opened, { capacity: 1, ...rest });
    await one.start();
    const job = one.model.addJob({ runsOn });
    await eventually("its executor is there", () => one.backend.world.stored.size === 1);
    const record = await one.record(job, (known) => known.phase.name === "starting");
    if (phase === "claimed") {
      await one.executor(record).updateTask({ state: { id: record.assignment.taskId } });
      await eventually("its message is acknowledged", () =>
        one.log.lines.some(({ fields }) => fields["event"] === "acked"),
      );
    }
    return { one, job, record };
  }
  const ends = ({ core, backend }: CoreOnJetStream) =>
    eventually("no slot, no executor and no assignment is left", () => {
      const [state] = core.figures.backends();
      return state?.used === 0 && backend.world.stored.size === 0 && core.assignments.all().length === 0;
    });
  const succeeds = async (one: CoreOnJetStream, job: FakeJob) => {
    const record = await one.record(job, (known) => currentAttempt(known) !== undefined);
    await one
      .executor(record)
      .updateTask({ state: { id: record.assignment.taskId, result: Result.SUCCESS } });
    assert.equal(one.model.shown(job).job, "success");
  };
  const health = ({ troubles }: CoreOnJetStream) =>
    troubleChecks(troubles).flatMap((check) => check.problem() ?? []);

  it("I4 and cannot be read are written anew from memory while the controller runs, and kept for a person", async () => {
    const opened = await jetStream.open();
    const { one, job } = await withJob(opened);
    await (await bucketOf(opened)).put(id, "hunter2");
    await eventually(
      "it is a record again",
      async () => (await read(opened).catch(() => undefined)) !== undefined,
    );
    assert.equal((await read(opened)).record.phase["name"], "claimed");
    assert.equal((await (await bucketOf(opened)).get(kept))?.string(), "hunter2");
    await succeeds(one, job);
    await ends(one);
    assert.deepEqual(await keys(opened), [kept]);
    assert.match(health(one).join(), /a record that cannot be read/);
    await (await bucketOf(opened)).delete(kept);
    await eventually("health is well again", () => health(one).length === 0);
  });

  it("I4 and cannot be read keep nobody from starting: a claimed executor is adopted, and its result taken", async () => {
    const opened = await jetStream.open();
    const { one, job } = await withJob(opened);
    await one.stop();
    await (
      await bucketOf(opened)
    ).put(id, '{"writer":{"id":"w","counter":1},"record":{"phase":{"name":"frozen"}}}');
    const next = createCore(opened, { capacity: 1, after: one });
    await next.start();
    assert.equal((await next.record(job)).phase.name, "adopted");
    assert.match(health(next).join(), /a record that cannot be read/);
    await succeeds(next, job);
    await ends(next);
    assert.deepEqual(await keys(opened), [kept]);
    assert.equal(job.task?.ends, 1);
  });

  it("I4 and cannot be read fail a job whose executor has ended, by name, and free its slot", async () => {
    const opened = await jetStream.open();
    const { one, job, record } = await withJob(opened);
    await one.stop();
    const attempt = currentAttempt(record);
    assert.ok(attempt !== undefined);
    one.backend.end(executorName(record.assignment, attempt));
    await (await bucketOf(opened)).put(id, "hunter2");
    const next = createCore(opened, { capacity: 1, after: one });
    await next.start();
    await ends(next);
    assert.equal(next.model.shown(job).job, "failure");
    assert.match(job.task?.log.join("\n") ?? "", /Reason: record_lost/);
  });

  it("I4 and cannot be read start a job anew that has no executor yet, from its message", async () => {
    const opened = await jetStream.open();
    const { one, job } = await withJob(opened, { phase: "starting" });
    await one.stop();
    one.backend.world.stored.clear();
    await (await bucketOf(opened)).put(id, "hunter2");
    const next = createCore(opened, { capacity: 1, after: one });
    await next.start();
    await eventually("its executor is there", () => next.backend.world.stored.size === 1);
    await succeeds(next, job);
    await ends(next);
    assert.deepEqual(await keys(opened), [kept]);
  });

  it("and cannot be read stay where they are if nothing else is left, for another version may read them", async () => {
    const opened = await jetStream.open();
    await (await bucketOf(opened)).put(id, "hunter2");
    const one = createCore(opened);
    await one.start();
    const [lane] = one.core.lanes;
    await eventually("it has looked around", () => lane?.reconciler.passedAt() !== undefined);
    assert.deepEqual(await keys(opened), [id]);
    assert.match(health(one).join(), /a record that cannot be read/);
    assert.doesNotMatch(one.log.text(), /hunter2/);
  });

  /** What makes sense is believed: the job may have to pay for it, but it comes to an end, and nothing is left. */
  const edits: readonly {
    readonly what: string;
    readonly phase?: "starting";
    readonly change: (json: Json) => unknown;
    /** What Gitea shows in the end. */
    readonly shown: "failure" | "success" | "in_progress";
    readonly row?: RegExp;
  }[] = [
    {
      what: "claimed, with the SPIFFE ID of another job",
      change: ({ record }) =>
        Object.assign(record["assignment"] as object, {
          spiffeId: "spiffe://example.org/ci/acme/widgets/deploy",
        }),
      shown: "failure",
      row: /Reason: (silent|vanished|killed)/,
    },
    {
      what: "claimed, with another nonce",
      change: ({ record }) => Object.assign(record.phase["attempt"] as object, { nonce: "f".repeat(32) }),
      shown: "failure",
      row: /Reason: (silent|vanished)/,
    },
    {
      what: "claimed, by another instance",
      change: ({ record }) =>
        Object.assign(record.phase["claim"] as object, { instance: "somebody-else-entirely" }),
      shown: "failure",
      row: /Reason: silent/,
    },
    {
      what: "starting, though it was to be claimed by somebody",
      phase: "starting",
      change: ({ record }) =>
        Object.assign(record.phase, {
          name: "claimed",
          claim: { instance: "nobody-at-all-here", logRows: 0, at: 1 },
        }),
      shown: "failure",
      row: /Reason: silent/,
    },
    {
      what: "claimed, and back in the queue",
      change: (json) => Object.assign(json.record, { phase: { name: "queued", notBefore: 0 } }),
      shown: "failure",
      row: /Reason: queue_lost/,
    },
    {
      what: "claimed, and back in the queue as if nothing had begun",
      change: ({ record }) =>
        Object.assign(record, { attempts: { begun: 0, burnt: 0 }, phase: { name: "queued", notBefore: 0 } }),
      shown: "success",
    },
    {
      what: "starting, fetched long ago",
      phase: "starting",
      change: ({ record }) => Object.assign(record, { fetchedAt: 1 }),
      shown: "success",
    },
    {
      what: "claimed, with a deadline that is over",
      change: ({ record }) => Object.assign(record.phase, { deadlineAt: 1 }),
      shown: "failure",
      row: /Reason: deadline/,
    },
    {
      what: "claimed, and over with a result that nobody has",
      change: ({ record }) => {
        const report = { result: "success", key: "0123456789abcdef", parts: 1, bytes: 3 };
        Object.assign(record.phase, { name: "ending", end: { by: "executor", report }, since: Date.now() });
      },
      shown: "failure",
      row: /Reason: record_lost/,
    },
    {
      what: "claimed, and over for Gitea, which does not know of it",
      change: ({ record }) =>
        Object.assign(record.phase, { name: "finished", result: "success", by: "executor", at: Date.now() }),
      shown: "in_progress",
    },
  ];
  for (const { what, phase = "claimed", change, shown, row } of edits)
    it(`and make sense are believed: ${what}`, async () => {
      const opened = await jetStream.open();
      const times = { silenceMs: 1_500, cancelGraceMs: 500, deadlineMarginMs: 200 };
      const { one, job } = await withJob(opened, { phase });
      await one.stop();
      await edit(opened, change);
      // Short where it is to end by them; what goes well may take its time.
      const next = createCore(opened, {
        capacity: 1,
        after: one,
        ...(shown === "success" ? {} : { times }),
      });
      await next.start();
      if (shown === "success") await succeeds(next, job);
      await ends(next);
      assert.equal(next.model.shown(job).job, shown);
      if (row !== undefined) assert.match(job.task?.log.join("\n") ?? "", row);
      assert.ok((job.task?.ends ?? 0) <= 1);
      assert.deepEqual(await keys(opened), []);
    });
});
