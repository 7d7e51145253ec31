import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createClient, ConnectError } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { describe, it } from "mocha";
import {
  Result,
  RunnerService,
  type StepStateSchema,
  type Task,
  UpdateTaskRequestSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { beat } from "../../controller/gitea/beat.ts";
import { createReportEnd, type End, storedRows } from "../../controller/gitea/report-end.ts";
import { sendReport } from "../../controller/gitea/send-report.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createRunnerClient, type RunnerClient } from "../../controller/gitea/runner-client.ts";
import { type GiteaFault, GiteaError } from "../../controller/protocol/errors.ts";

export type Credentials = { readonly uuid: string; readonly token: string };

/** What people see: `queued`, `in_progress`, or the conclusion. */
export type ShownJob = { readonly job: string; readonly steps: readonly string[] };

export type ContractJob = {
  /** The button on the run's page. */
  cancel(): Promise<void>;
  /** Removes the repository, and the task with it. */
  remove(): Promise<void>;
  shown(): Promise<ShownJob>;
  /** The rows of the job's log. */
  log(): Promise<readonly string[]>;
};

/** A Gitea, real or fake, seen from both of its sides. */
export type ContractGitea = {
  readonly url: string;
  addRunner(): Promise<Credentials>;
  /** A job with this many steps that waits from now on for a runner with these labels (one or two). */
  addJob(runsOn: readonly string[], steps?: number): Promise<ContractJob>;
  /** Closed logs cannot be stored until it is disposed of. */
  breakLogStore(): Promise<AsyncDisposable>;
};

const now = Date.parse("2026-01-01T00:00:00Z");
/** Begins when it is asked for: this file may be loaded long before its tests run. */
const soon = () => AbortSignal.timeout(120_000);

/** The machine's clock, but that it is always `now`. */
const clock = { ...systemClock, now: () => now };

/** By a controller that has not tried it before. */
function reportEnd(gitea: Parameters<typeof createReportEnd>[0]["gitea"], end: End) {
  return createReportEnd({ gitea, clock })(end, soon());
}

/** Gitea's RunnerService as we rely on it. The same for the fake and the real one: where they differ the fake is wrong. */
export function describeGitea(name: string, get: () => ContractGitea): void {
  const wire = ({ uuid, token }: Credentials) =>
    createClient(
      RunnerService,
      createConnectTransport({
        baseUrl: `${get().url}/api/actions`,
        httpVersion: "1.1",
        useBinaryFormat: true,
        interceptors: [
          (next) => (request) => {
            request.header.set("x-runner-uuid", uuid);
            request.header.set("x-runner-token", token);
            return next(request);
          },
        ],
      }),
    );
  const clientOf = (credentials: Credentials) =>
    createRunnerClient({ ...credentials, url: get().url, version: "contract/1" });

  /** A runner with a label of its own, declared. */
  const aRunner = async () => {
    const label = `l-${randomUUID().slice(0, 8)}`;
    const credentials = await get().addRunner();
    const client = clientOf(credentials);
    await client.declare(["self-hosted", label], soon());
    return { credentials, client, label, wire: wire(credentials) };
  };
  /** A job that its runner has taken. */
  const aTaken = async (steps = 1) => {
    const runner = await aRunner();
    const job = await get().addJob([runner.label], steps);
    const { task } = await runner.client.fetchTask(0n);
    assert.ok(task !== undefined);
    return { ...runner, job, task, id: task.id };
  };
  const fault = async (call: Promise<unknown>): Promise<GiteaFault> => {
    try {
      await call;
    } catch (error) {
      assert.ok(error instanceof GiteaError, String(error));
      return error.fault;
    }
    return assert.fail("the call went well");
  };
  const text = async (call: Promise<unknown>): Promise<string> => {
    try {
      await call;
    } catch (error) {
      return ConnectError.from(error).message;
    }
    return assert.fail("the call went well");
  };

  describe(name, () => {
    describe("Declare", () => {
      it("B-25 stores version and bare labels, and tells no token", async () => {
        const { client } = await aRunner();
        const runner = await client.declare(["self-hosted", "pod", "vm"], soon());
        assert.deepEqual(runner?.labels, ["self-hosted", "pod", "vm"]);
        assert.equal(runner.version, "contract/1");
        assert.equal(runner.token, "");
      });

      it("replaces the labels, so that jobs for the old ones wait", async () => {
        const { client, label } = await aRunner();
        await client.declare(["self-hosted"], soon());
        const job = await get().addJob([label]);
        assert.equal((await client.fetchTask(0n)).task, undefined);
        await client.declare(["self-hosted", label], soon());
        assert.ok((await client.fetchTask(0n)).task !== undefined);
        assert.equal((await job.shown()).job, "in_progress");
      });

      it("refuses a wrong token, a wrong uuid and none, as an unregistered runner", async () => {
        const credentials = await get().addRunner();
        for (const wrong of [
          { ...credentials, token: "wrong" },
          { ...credentials, uuid: randomUUID() },
          { uuid: "", token: "" },
        ]) {
          assert.equal(
            await text(wire(wrong).fetchTask({})),
            "[unknown] rpc error: code = Unauthenticated desc = unregistered runner",
          );
          assert.equal(await fault(clientOf(wrong).fetchTask(0n)), "unregistered");
          assert.equal(await fault(clientOf(wrong).declare([], soon())), "unregistered");
        }
      });
    });

    describe("FetchTask", () => {
      it("answers at once with a version when nothing waits", async () => {
        const { client } = await aRunner();
        const { task, tasksVersion } = await client.fetchTask(0n);
        assert.equal(task, undefined);
        assert.ok(tasksVersion >= 1n);
      });

      it("does not look for a job when it is sent the latest version, and does when it is sent 0", async () => {
        const { client, label } = await aRunner();
        const other = await aRunner();
        await get().addJob([label]);
        const { tasksVersion } = await other.client.fetchTask(0n);
        const short = await client.fetchTask(tasksVersion);
        assert.equal(short.task, undefined);
        assert.equal(short.tasksVersion, tasksVersion);
        assert.ok((await client.fetchTask(0n)).task !== undefined);
      });

      it("has a higher version when a job has come", async () => {
        const { client, label } = await aRunner();
        const before = (await client.fetchTask(0n)).tasksVersion;
        await get().addJob([label]);
        const { task, tasksVersion } = await client.fetchTask(before);
        assert.ok(task !== undefined);
        assert.ok(tasksVersion > before);
      });

      it("gives a job whose runs-on is a subset of the labels, in any order, upper and lower case apart", async () => {
        const { client, label } = await aRunner();
        await get().addJob([label, "self-hosted"]);
        assert.ok((await client.fetchTask(0n)).task !== undefined);
        await get().addJob([label, "another"]);
        await get().addJob([label.toUpperCase(), "self-hosted"]);
        assert.equal((await client.fetchTask(0n)).task, undefined);
      });

      it("gives a job without labels to every runner", async () => {
        const { client } = await aRunner();
        const job = await get().addJob([]);
        assert.ok((await client.fetchTask(0n)).task !== undefined);
        assert.equal((await job.shown()).job, "in_progress");
      });

      it("gives one task a call, the oldest first, and as many as are asked for", async () => {
        const { client, label } = await aRunner();
        const first = await get().addJob([label]);
        const second = await get().addJob([label]);
        const one = await client.fetchTask(0n);
        assert.deepEqual([(await first.shown()).job, (await second.shown()).job], ["in_progress", "queued"]);
        const two = await client.fetchTask(0n);
        assert.ok(one.task !== undefined && two.task !== undefined && one.task.id < two.task.id);
      });

      it("gives each job once, however many ask at once", async () => {
        const { client, label } = await aRunner();
        for (let i = 0; i < 4; i++) await get().addJob([label]);
        const ids = new Set<bigint>();
        // A race that is lost is answered "nothing": ask again.
        for (let round = 0; round < 20 && ids.size < 4; round++) {
          const answers = await Promise.all(Array.from({ length: 8 }, () => client.fetchTask(0n)));
          const tasks = answers.flatMap(({ task }) => (task === undefined ? [] : [task.id]));
          for (const id of tasks) {
            assert.ok(!ids.has(id));
            ids.add(id);
          }
        }
        assert.equal(ids.size, 4);
        assert.equal((await client.fetchTask(0n)).task, undefined);
      });

      it("brings payload, context and token", async () => {
        const { task } = await aTaken(2);
        assert.match(payload(task), /runs-on:/);
        assert.equal(task.context?.["job"], "build");
        assert.ok(typeof task.context["token"] === "string");
        assert.equal(task.secrets["GITEA_TOKEN"], task.context["token"]);
      });

      it("gives nothing that was cancelled before it was taken", async () => {
        const { client, label } = await aRunner();
        const job = await get().addJob([label]);
        await job.cancel();
        assert.equal((await client.fetchTask(0n)).task, undefined);
        assert.equal((await job.shown()).job, "cancelled");
      });
    });

    describe("UpdateTask", () => {
      it("answers a beat with the id and no result while the task runs", async () => {
        const { client, id } = await aTaken();
        const { state } = await client.updateTask({ state: { id } }, soon());
        assert.equal(state?.id, id);
        assert.equal(state.result, Result.UNSPECIFIED);
        assert.equal(await beat(client, id, soon()), "running");
      });

      it("refuses an unknown task and another runner's as gone", async () => {
        const { id, wire: own, client } = await aTaken();
        const stranger = await aRunner();
        assert.equal(
          await text(own.updateTask({ state: { id: 999_999_999n } })),
          "[unknown] rpc error: code = Internal desc = update task: resource does not exist",
        );
        assert.equal(
          await text(stranger.wire.updateTask({ state: { id } })),
          "[unknown] rpc error: code = Internal desc = update task: invalid runner for task",
        );
        assert.equal(await beat(client, 999_999_999n, soon()), "gone");
        assert.equal(await beat(stranger.client, id, soon()), "gone");
      });

      it("says that a task is gone when its repository is deleted", async () => {
        const { job, client, id } = await aTaken();
        await job.remove();
        assert.equal(await beat(client, id, soon()), "gone");
        assert.equal(await fault(storedRows(client, id, soon())), "gone");
        assert.equal(
          await reportEnd(client, { taskId: id, result: "failure", reason: ["x"], steps: [] }),
          "gone",
        );
      });

      it("shows steps as they are reported", async () => {
        const { client, id, job } = await aTaken(3);
        assert.deepEqual((await job.shown()).steps, ["queued", "queued", "queued"]);
        await client.updateTask({ state: { id, steps: [done(0), running(1), open(2)] } }, soon());
        assert.deepEqual((await job.shown()).steps, ["success", "in_progress", "queued"]);
      });

      it("sets steps that are over back to running when a report leaves them out", async () => {
        const { client, id, job } = await aTaken(2);
        await client.updateTask({ state: { id, steps: [done(0), open(1)] } }, soon());
        await client.updateTask({ state: { id } }, soon());
        assert.deepEqual((await job.shown()).steps, ["in_progress", "queued"]);
      });

      it("leaves steps open for ever when a result comes without them, and ignores steps that it does not have", async () => {
        const { client, id, job } = await aTaken(2);
        await client.updateTask(final(id, Result.FAILURE), soon());
        await client.updateTask({ state: { id, steps: [done(0), done(1), done(2)] } }, soon());
        assert.deepEqual(await job.shown(), { job: "failure", steps: ["queued", "queued"] });
      });

      it("takes the first result, and answers a later one with it", async () => {
        const { client, id, job } = await aTaken();
        const first = await client.updateTask(final(id, Result.SUCCESS, [done(0)]), soon());
        const second = await client.updateTask(final(id, Result.FAILURE), soon());
        assert.deepEqual([first.state?.result, second.state?.result], [Result.SUCCESS, Result.SUCCESS]);
        assert.deepEqual(await job.shown(), { job: "success", steps: ["success"] });
        assert.equal(await beat(client, id, soon()), "success");
      });

      it("keeps the first value of an output, also one that comes after the result, and drops what is too large", async () => {
        const { client, id } = await aTaken();
        const send = async (outputs: Record<string, string>) =>
          (await client.updateTask({ state: { id }, outputs }, soon())).sentOutputs.toSorted();
        assert.deepEqual(await send({ a: "1" }), ["a"]);
        assert.deepEqual(await send({ a: "2", empty: "" }), ["a", "empty"]);
        await client.updateTask(final(id, Result.SUCCESS), soon());
        const tooLarge = { ["k".repeat(256)]: "x", large: "x".repeat(1024 * 1024 + 1) };
        assert.deepEqual(await send({ late: "3", ...tooLarge }), ["a", "empty", "late"]);
      });
    });

    describe("a cancel", () => {
      it("is told by the next beat, and the task runs until its end is reported, which is always cancelled", async () => {
        const { client, id, job } = await aTaken();
        await job.cancel();
        assert.equal(await beat(client, id, soon()), "cancelled");
        const { ackIndex } = await client.updateLog({ taskId: id, rows: [{ content: "bye" }] }, soon());
        assert.equal(ackIndex, 1n);
        const { state } = await client.updateTask(final(id, Result.SUCCESS, [done(0)]), soon());
        assert.equal(state?.result, Result.CANCELLED);
        assert.equal((await job.shown()).job, "cancelled");
      });

      it("ends the task at once when the runner did not declare that it understands it", async () => {
        const { client, label, wire: own } = await aRunner();
        await own.declare({ version: "old", labels: [label] });
        const job = await get().addJob([label]);
        const { task } = await client.fetchTask(0n);
        assert.ok(task !== undefined);
        await job.cancel();
        assert.deepEqual(await job.shown(), { job: "cancelled", steps: ["cancelled"] });
        assert.equal(await beat(client, task.id, soon()), "cancelled");
      });
    });

    describe("UpdateLog", () => {
      const rows = (...contents: string[]) => contents.map((content) => ({ content }));

      it("appends, skips what it has, stores nothing behind a gap, and tells the number of rows", async () => {
        const { client, id: taskId, job } = await aTaken();
        const put = async (index: bigint, ...contents: string[]) =>
          (await client.updateLog({ taskId, index, rows: rows(...contents) }, soon())).ackIndex;
        assert.equal(await put(0n, "one", "two"), 2n);
        assert.equal(await put(5n, "lost"), 2n);
        assert.equal(await put(0n, "one"), 2n);
        assert.equal(await put(1n, "changed", "three"), 3n);
        assert.equal(await storedRows(client, taskId, soon()), 3n);
        assert.deepEqual(await job.log(), ["one", "two", "three"]);
      });

      it("closes the log with the last rows, takes a repetition, and refuses new ones as archived", async () => {
        const { client, id: taskId, job, wire: own } = await aTaken();
        const last = { taskId, index: 0n, rows: rows("one", "two"), noMore: true };
        assert.equal((await client.updateLog(last, soon())).ackIndex, 2n);
        assert.equal((await client.updateLog(last, soon())).ackIndex, 2n);
        assert.equal(await storedRows(client, taskId, soon()), 2n);
        const more = { taskId, index: 2n, rows: rows("three") };
        assert.equal(
          await text(own.updateLog(more)),
          "[unknown] rpc error: code = AlreadyExists desc = log file has been archived",
        );
        assert.equal(await fault(client.updateLog(more, soon())), "log-archived");
        assert.deepEqual(await job.log(), ["one", "two"]);
      });

      it("does not close the log behind a gap", async () => {
        const { client, id: taskId } = await aTaken();
        await client.updateLog({ taskId, index: 3n, rows: rows("lost"), noMore: true }, soon());
        assert.equal((await client.updateLog({ taskId, rows: rows("one") }, soon())).ackIndex, 1n);
      });

      it("closes the log without a row as well", async () => {
        const { client, id: taskId } = await aTaken();
        await client.updateLog({ taskId, rows: rows("one") }, soon());
        await client.updateLog({ taskId, index: 1n, noMore: true }, soon());
        assert.equal(
          await fault(client.updateLog({ taskId, index: 1n, rows: rows("two") }, soon())),
          "log-archived",
        );
      });

      it("takes rows after the result", async () => {
        const { client, id: taskId, job } = await aTaken();
        await client.updateTask(final(taskId, Result.SUCCESS, [done(0)]), soon());
        await client.updateLog({ taskId, rows: rows("late") }, soon());
        assert.deepEqual(await job.log(), ["late"]);
      });

      it("refuses an unknown task and another runner's as gone", async () => {
        const { client, id: taskId, wire: own } = await aTaken();
        const stranger = await aRunner();
        assert.equal(
          await text(own.updateLog({ taskId: 999_999_999n })),
          "[unknown] rpc error: code = Internal desc = get task: task with id 999999999: resource does not exist",
        );
        assert.equal(
          await text(stranger.wire.updateLog({ taskId })),
          "[unknown] rpc error: code = Internal desc = invalid runner for task",
        );
        assert.equal(await fault(storedRows(client, 999_999_999n, soon())), "gone");
        assert.equal(await fault(storedRows(stranger.client, taskId, soon())), "gone");
      });
    });

    describe("an executor's report that we kept", () => {
      const kept = (taskId: bigint, result: Result, withEnd = true) => ({
        taskId,
        bytes: toBinary(
          UpdateTaskRequestSchema,
          create(UpdateTaskRequestSchema, {
            state: {
              id: taskId,
              result,
              steps: [done(0)],
              ...(withEnd ? { stoppedAt: timestampFromMs(now) } : {}),
            },
            outputs: { digest: "abc", empty: "" },
          }),
        ),
        storedAt: now,
      });

      it("ends the job with its steps and outputs, told once or more often", async () => {
        const { client, id, job } = await aTaken();
        await assert.rejects(
          sendReport(losing(client, "updateTask", 1), kept(id, Result.SUCCESS), soon()),
          /lost/,
        );
        assert.equal(await sendReport(client, kept(id, Result.SUCCESS), soon()), "success");
        assert.deepEqual(await job.shown(), { job: "success", steps: ["success"] });
        const { sentOutputs } = await client.updateTask({ state: { id } }, soon());
        assert.deepEqual(sentOutputs.toSorted(), ["digest", "empty"]);
      });

      it("ends as cancelled when a cancel came first", async () => {
        const { client, id, job } = await aTaken();
        await job.cancel();
        assert.equal(await sendReport(client, kept(id, Result.SUCCESS, false), soon()), "cancelled");
        assert.equal((await job.shown()).job, "cancelled");
      });

      it("is of no use to a Gitea that does not know the task any more", async () => {
        const { client, id, job } = await aTaken();
        await job.remove();
        assert.equal(await sendReport(client, kept(id, Result.SUCCESS), soon()), "gone");
      });
    });

    describe("the end that we report for an executor", () => {
      const failed = { result: "failure", reason: ["It never started.", "Ask an operator."] } as const;

      it("puts the reason behind the stored rows, closes the log and fails the job", async () => {
        const { client, id, job } = await aTaken(2);
        await client.updateLog({ taskId: id, rows: [{ content: "first" }] }, soon());
        const steps = [
          { id: 0, startedAt: iso(now), logIndex: 0, logLength: 0 },
          { id: 1, logIndex: 0, logLength: 0 },
        ];
        assert.equal(await reportEnd(client, { taskId: id, ...failed, steps }), "failure");
        assert.deepEqual(await job.log(), ["first", ...failed.reason]);
        assert.deepEqual(await job.shown(), { job: "failure", steps: ["failure", "skipped"] });
        const more = { taskId: id, index: 3n, rows: [{ content: "x" }] };
        assert.equal(await fault(client.updateLog(more, soon())), "log-archived");
      });

      it("closes all steps of a job whose steps nobody ever reported", async () => {
        const { client, id, job } = await aTaken(3);
        await reportEnd(client, { taskId: id, ...failed, steps: [] });
        assert.deepEqual(await job.shown(), { job: "failure", steps: ["skipped", "skipped", "skipped"] });
      });

      it("changes nothing when it is repeated", async () => {
        const { client, id, job } = await aTaken();
        const end = { taskId: id, ...failed, steps: [] };
        assert.equal(await reportEnd(client, end), "failure");
        assert.equal(await reportEnd(client, end), "failure");
        assert.deepEqual(await job.log(), failed.reason);
      });

      for (const [method, which, what] of [
        ["updateLog", 1, "the question for the rows"],
        ["updateLog", 2, "the rows"],
        ["updateTask", 1, "the result"],
      ] as const)
        for (const [who, anew] of [
          ["the same controller", false],
          ["the next one", true],
        ] as const)
          it(`writes rows and result once when the answer to ${what} gets lost and ${who} tries again`, async () => {
            const { client, id, job } = await aTaken();
            await client.updateLog({ taskId: id, rows: [{ content: "first" }] }, soon());
            const report = createReportEnd({ gitea: losing(client, method, which), clock });
            const end = { taskId: id, ...failed, steps: [] };
            await assert.rejects(report(end, soon()), /lost/);
            assert.equal(await (anew ? reportEnd(client, end) : report(end, soon())), "failure");
            assert.deepEqual(await job.log(), ["first", ...failed.reason]);
            assert.deepEqual(await job.shown(), { job: "failure", steps: ["skipped"] });
          });

      it("writes rows once though closed logs cannot be stored and the answer gets lost", async () => {
        const { client, id, job } = await aTaken();
        await using broken = await get().breakLogStore();
        // The question for the rows, the try to close it with them, and that without closing it, whose answer is lost.
        const report = createReportEnd({ gitea: losing(client, "updateLog", 3), clock });
        const end = { taskId: id, ...failed, steps: [] };
        await assert.rejects(report(end, soon()), /lost/);
        assert.deepEqual(await job.log(), failed.reason);
        assert.equal(await report(end, soon()), "failure");
        assert.deepEqual(await job.log(), failed.reason);
        assert.ok(broken);
      });

      it("reports the result although the log is closed already, and resolves to what Gitea shows", async () => {
        const { client, id, job } = await aTaken();
        await client.updateLog({ taskId: id, rows: [{ content: "all" }], noMore: true }, soon());
        await client.updateTask(final(id, Result.SUCCESS, [done(0)]), soon());
        assert.equal(await reportEnd(client, { taskId: id, ...failed, steps: [] }), "success");
        assert.deepEqual(await job.log(), ["all"]);
        assert.deepEqual(await job.shown(), { job: "success", steps: ["success"] });
      });

      it("reports reason and result although closed logs cannot be stored", async () => {
        const { client, id, job } = await aTaken();
        await using broken = await get().breakLogStore();
        const closing = { taskId: id, index: 0n, rows: [{ content: "first" }], noMore: true };
        assert.equal(await fault(client.updateLog(closing, soon())), "log-trouble");
        assert.equal(await reportEnd(client, { taskId: id, ...failed, steps: [] }), "failure");
        assert.deepEqual(await job.log(), failed.reason);
        assert.ok(broken);
      });

      it("resolves to cancelled when a cancel came first", async () => {
        const { client, id, job } = await aTaken();
        await job.cancel();
        assert.equal(await reportEnd(client, { taskId: id, ...failed, steps: [] }), "cancelled");
        assert.equal((await job.shown()).job, "cancelled");
      });

      it("closes the log of a task that is ended without a reason", async () => {
        const { client, id, job } = await aTaken();
        await client.updateLog({ taskId: id, rows: [{ content: "only" }] }, soon());
        await reportEnd(client, { taskId: id, result: "cancelled", reason: [], steps: [] });
        assert.deepEqual(
          (await job.log()).filter((row) => row !== ""),
          ["only"],
        );
        const more = { taskId: id, index: 5n, rows: [{ content: "x" }] };
        assert.notEqual(await storedRows(client, id, soon()), 0n);
        assert.equal(
          await fault(client.updateLog({ ...more, index: await storedRows(client, id, soon()) }, soon())),
          "log-archived",
        );
      });
    });
  });
}

/** The answer to that call of the method is lost, counted from 1; Gitea has done it. */
function losing(client: RunnerClient, method: "updateLog" | "updateTask", which: number): RunnerClient {
  let calls = 0;
  const lose = async <T>(of: typeof method, answer: Promise<T>): Promise<T> => {
    const isLost = of === method && ++calls === which;
    await answer;
    if (isLost) throw new GiteaError("transient", "the answer is lost");
    return answer;
  };
  return {
    ...client,
    updateLog: (request, signal) => lose("updateLog", client.updateLog(request, signal)),
    updateTask: (request, signal) => lose("updateTask", client.updateTask(request, signal)),
  };
}

type Step = MessageInitShape<typeof StepStateSchema>;

const open = (id: number): Step => ({ id: BigInt(id) });
const running = (id: number): Step => ({ id: BigInt(id), startedAt: timestampFromMs(now) });
const done = (id: number): Step => ({
  ...running(id),
  result: Result.SUCCESS,
  stoppedAt: timestampFromMs(now),
});

function final(id: bigint, result: Result, steps: Step[] = []) {
  return { state: { id, result, steps, stoppedAt: timestampFromMs(now) } };
}

function payload(task: Task): string {
  return Buffer.from(task.workflowPayload ?? []).toString("utf8");
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
