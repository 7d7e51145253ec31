import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { describe, it } from "mocha";
import { executorName } from "../../controller/assignment/executor-metadata.ts";
import { currentAttempt } from "../../controller/assignment/record.ts";
import { FetchTaskResponseSchema, Result, type Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { FakeJob, JobOptions } from "../fakes/fake-gitea-model.ts";
import { type CoreOnJetStream, useCoreOnJetStream } from "../support/core-on-jetstream.ts";
import { registeredAt } from "../support/core-under-test.ts";
import { eventually } from "../support/eventually.ts";
import { type JetStreamUnderTest, useJetStream } from "../support/jetstream.ts";
import { useNats } from "../support/nats.ts";

const runsOn = ["self-hosted", "pod"];
const megabytes = 1024 * 1024;

describe("bad tasks, with records and messages in a real nats-server", () => {
  const nats = useNats();
  const jetStream = useJetStream(nats);
  const createCore = useCoreOnJetStream();

  const stored = async ({ link, settings: { stream } }: JetStreamUnderTest) => {
    const manager = await link.nats.jetstreamManager();
    const infos = await Promise.all([stream, `KV_${stream}_STATE`].map((name) => manager.streams.info(name)));
    return infos.map(({ state }) => state.messages);
  };
  const nothingLeft = (opened: JetStreamUnderTest, { core, backend }: CoreOnJetStream) =>
    eventually("nothing is left", async () => {
      const left = [...(await stored(opened)), backend.world.stored.size, core.assignments.all().length];
      return left.every((count) => count === 0) && core.figures.backends()[0]?.used === 0;
    });
  async function runs(one: CoreOnJetStream, job: FakeJob): Promise<Task> {
    const record = await one.record(job, ({ phase }) => phase.name === "starting");
    const executor = one.executor(record);
    const { task } = await executor.fetchTask({});
    assert.ok(task !== undefined);
    await eventually("its executor is there", () => one.backend.world.stored.size > 0);
    await executor.updateTask({ state: { id: task.id, result: Result.SUCCESS } });
    assert.equal(one.model.shown(job).job, "success");
    return task;
  }

  const tasks: readonly {
    readonly what: string;
    readonly job: JobOptions;
    readonly row: RegExp;
    readonly reason: string;
  }[] = [
    {
      what: "without a workflow",
      job: { runsOn, workflow: "" },
      row: /Seen: .*it is empty/,
      reason: "bad_workflow",
    },
    {
      what: "with a workflow that is no YAML",
      job: { runsOn, workflow: "jobs: [}: \0" },
      row: /Seen: .*it is no YAML/,
      reason: "bad_workflow",
    },
    {
      what: "with two jobs",
      job: {
        runsOn,
        workflow: "jobs:\n  one:\n    runs-on: [self-hosted, pod]\n  two:\n    runs-on: [self-hosted, pod]\n",
      },
      row: /Seen: .*it has 2 jobs, a task has one/,
      reason: "bad_workflow",
    },
    {
      what: "with a workflow that is larger than any",
      job: { runsOn, workflow: `# ${"x".repeat(600 * 1024)}` },
      row: /the workflow has \d+ bytes, 524288 are possible/,
      reason: "bad_workflow",
    },
    {
      what: "of a repository that has no name",
      job: { runsOn, context: { repository: "acme" } },
      row: /This job cannot be run here/,
      reason: "bad_workflow",
    },
    {
      what: "with 20 MB of event that cannot be made smaller",
      job: { runsOn, context: { event: { message: randomBytes(15 * megabytes).toString("base64") } } },
      row: /too large to be stored.*Seen: the task takes \d+ bytes in the queue, 8388608 are possible/s,
      reason: "too_large",
    },
  ];
  for (const { what, job: options, row, reason } of tasks)
    it(`${what} fail at once by name, and the next one runs`, async () => {
      const opened = await jetStream.open();
      const one = createCore(opened);
      await one.start();
      const job = one.model.addJob(options);
      await eventually("it has failed", () => one.model.shown(job).job === "failure");
      assert.match(job.task?.log.join("\n") ?? "", row);
      assert.equal(job.task?.ends, 1);
      assert.equal(one.core.figures.failures()[reason], 1);
      await runs(one, one.model.addJob({ runsOn }));
      await nothingLeft(opened, one);
    });

  it("with 20 MB of event that can be made smaller run, and their executor gets all of it", async () => {
    const opened = await jetStream.open();
    const one = createCore(opened);
    await one.start();
    const event = { message: "the same words again ".repeat(megabytes) };
    const task = await runs(one, one.model.addJob({ runsOn, context: { event } }));
    assert.deepEqual(task.context?.["event"], event);
    await nothingLeft(opened, one);
  });

  for (const [when, duplicateWindowMs] of [
    ["yesterday", 100],
    ["a moment ago", 3_600_000],
  ] as const)
    it(`that ended ${when} start nothing when Gitea hands them out again`, async () => {
      const opened = await jetStream.open({ duplicateWindowMs });
      let again: Task | undefined;
      const one = createCore(opened, {
        gitea: (model) => {
          const gitea = registeredAt(model);
          const fetchTask: typeof gitea.fetchTask = async (version) => {
            const task = again;
            again = undefined;
            return task === undefined ? gitea.fetchTask(version) : create(FetchTaskResponseSchema, { task });
          };
          return { ...gitea, fetchTask };
        },
      });
      await one.start();
      const job = one.model.addJob({ runsOn });
      const task = await runs(one, job);
      await nothingLeft(opened, one);
      const before = (await one.history("gitea-task-1")).length;
      again = task;
      await eventually("it has come and gone", async () => {
        const events = (await one.history("gitea-task-1")).slice(before).map(({ event }) => event);
        return events.includes("forgotten");
      });
      await nothingLeft(opened, one);
      assert.equal(one.backend.called("create").length, 1);
      assert.deepEqual([one.model.shown(job).job, job.task?.ends], ["success", 1]);
    });

  it("are not lost with the metadata of their executor: the job ends as it does, and what is left goes when it is old", async () => {
    const opened = await jetStream.open();
    const times = { deadlineMarginMs: 500, endlessMs: 3_600_000 };
    const one = createCore(opened, { capacity: 1, timeoutMs: 12_000, times });
    await one.start();
    const job = one.model.addJob({ runsOn });
    const record = await one.record(job, ({ phase }) => phase.name === "starting");
    await eventually("its executor is there", () => one.backend.world.stored.size > 0);
    const executor = one.executor(record);
    await executor.updateTask({ state: { id: record.assignment.taskId } });
    const attempt = currentAttempt(record);
    assert.ok(attempt !== undefined);
    one.backend.spoil(executorName(record.assignment, attempt));
    await eventually("it is told of", () => one.core.figures.backends()[0]?.invalid === 1);
    assert.match(
      one.core.well.flatMap((check) => check.problem() ?? []).join(),
      /1 have metadata that cannot be read/,
    );
    await executor.updateTask({ state: { id: record.assignment.taskId, result: Result.SUCCESS } });
    assert.equal(one.model.shown(job).job, "success");
    await nothingLeft(opened, one);
    assert.deepEqual(
      one.core.well.flatMap((check) => check.problem() ?? []),
      [],
    );
  });
});
