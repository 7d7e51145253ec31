import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { executorName } from "../../controller/assignment/executor-metadata.ts";
import { type AssignmentRecord, currentAttempt, type PhaseName } from "../../controller/assignment/record.ts";
import { BackendError } from "../../controller/backends/backend.ts";
import { readStoredAfter } from "../../controller/platform/jetstream.ts";
import { eventStream } from "../../controller/queue/streams.ts";
import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import { type CoreOnJetStream, useCoreOnJetStream } from "../support/core-on-jetstream.ts";
import { eventually } from "../support/eventually.ts";
import { type JetStreamUnderTest, soon, useJetStream } from "../support/jetstream.ts";
import { useNats } from "../support/nats.ts";

const runsOn = ["self-hosted", "pod"];
const id = "gitea-task-1";
const inPhase =
  (name: PhaseName) =>
  ({ phase }: { readonly phase: { readonly name: PhaseName } }) =>
    phase.name === name;

describe("the history that the core leaves in a real stream", () => {
  const nats = useNats();
  const jetStream = useJetStream(nats);
  const createCore = useCoreOnJetStream();

  const happened = (one: CoreOnJetStream, event: string, about = id) =>
    eventually(`${event} is in the history of ${about}`, async () =>
      (await one.history(about)).some((told) => told.event === event),
    );
  const everything = async ({ link, settings }: JetStreamUnderTest) => {
    const stream = eventStream(settings.stream);
    const reader = { link, stream, timeoutMs: 5_000 };
    const query = { subject: `${settings.subjectBase}.events.>`, after: 0 };
    const all = await Array.fromAsync(readStoredAfter(reader, query, soon()));
    return all.map(({ data, subject }) => `${subject} ${Buffer.from(data).toString()}`).join("\n");
  };

  it("B-31 tells of one job what happened to it, in order, and none of its secrets", async () => {
    const opened = await jetStream.open();
    // It ends by itself, and is not killed for being slow.
    const one = createCore(opened, { times: { terminalGraceMs: 30_000 } });
    await one.start();
    const job = one.model.addJob({ runsOn, secrets: { DEPLOY_KEY: "zq7Pw3-planted" } });
    const record = await one.record(job, inPhase("starting"));
    await happened(one, "backend_ready");
    const executor = one.executor(record);
    const { task } = await executor.fetchTask({});
    assert.equal(task?.secrets["DEPLOY_KEY"], "zq7Pw3-planted");
    await executor.updateTask({ state: { id: task.id } });
    await happened(one, "acked");
    const state = { id: task.id, steps: [{ id: 0n, startedAt: { seconds: 1_767_225_600n } }] };
    await executor.updateTask({ state });
    await executor.updateTask({
      state: { ...state, result: Result.SUCCESS },
      outputs: { word: "zq7Pw3-output" },
    });
    const attempt = currentAttempt(record);
    assert.ok(attempt !== undefined);
    const name = executorName(record.assignment, attempt);
    const capability = one.backend.environmentOf(name)?.["CI_RUNNER_CAPABILITY"];
    assert.ok(capability !== undefined);
    one.backend.end(name);
    await happened(one, "forgotten");

    const told = await one.history(id);
    assert.deepEqual(
      told.map(({ event, from, to }) => [event, from, to].filter((word) => word !== undefined).join(" ")),
      [
        "offered queued",
        "received",
        "capacity_acquired",
        "executor_absent",
        "attempt_begun queued starting",
        "executor_created",
        "identity_bound",
        "backend_ready",
        "claimed starting claimed",
        "runner_claimed",
        "acked",
        "steps_reported claimed claimed",
        "result_reported claimed ending",
        "accepted ending finished",
        "executor_deleted",
        "forgotten finished finished",
      ],
    );
    const executors = told.filter(({ event }) => event.startsWith("executor_"));
    for (const { event, executor: named } of executors)
      assert.equal(named, event === "executor_absent" ? undefined : name);
    const text = await everything(opened);
    assert.ok(text.includes(`.events.${id} {`));
    for (const secret of ["zq7Pw3", capability, `task-token-${task.id}`, "spiffe://", attempt.nonce])
      assert.ok(!text.includes(secret), `${secret} is in the history`);
  });

  it("tells why an attempt was lost, and why a job failed", async () => {
    const one = createCore(await jetStream.open());
    await one.start();
    const job = one.model.addJob({ runsOn });
    const first = executorName(...attemptOf(await one.record(job, inPhase("starting"))));
    await happened(one, "backend_ready");
    one.backend.end(first, "exit code 137", "start_oom");
    const isSecond = (record: AssignmentRecord) =>
      inPhase("starting")(record) && currentAttempt(record)?.number === 2;
    const second = await one.record(job, isSecond);
    await one.executor(second).updateTask({ state: { id: second.assignment.taskId } });
    await happened(one, "acked");
    one.backend.end(executorName(...attemptOf(second)), "exit code 137", "oom");
    await happened(one, "accepted");
    const told = await one.history(id);
    assert.deepEqual(
      told
        .filter(({ reason }) => reason !== undefined)
        .map(({ event, attempt, reason, evidence }) => [event, attempt, reason, evidence]),
      [
        ["attempt_lost", 1, "start_oom", "exit code 137"],
        ["failed", 2, "oom", "exit code 137"],
      ],
    );
    assert.equal(told.find(({ event }) => event === "executor_deleted")?.executor, first);
  });

  it("tells that an executor was killed, and why", async () => {
    const one = createCore(await jetStream.open());
    await one.start();
    const job = one.model.addJob({ runsOn });
    const [assignment, attempt] = attemptOf(await one.record(job, inPhase("starting")));
    await happened(one, "backend_ready");
    one.model.cancel(job);
    await happened(one, "forgotten");
    const told = await one.history(id);
    const executor = executorName(assignment, attempt);
    assert.deepEqual(
      told
        .filter(({ event }) => event === "executor_killed" || event === "executor_deleted")
        .map(({ event, executor: named, evidence }) => [event, named, evidence]),
      [
        ["executor_killed", executor, "its task was cancelled"],
        ["executor_deleted", executor, undefined],
      ],
    );
  });

  it("tells of a backend when it is left alone and when it is asked again, apart from the jobs", async () => {
    const one = createCore(await jetStream.open());
    for (let i = 0; i < 3; i++)
      one.backend.failNext("create", new BackendError("retryable", "the API server is away"));
    await one.start();
    one.model.addJob({ runsOn });
    await happened(one, "circuit_closed", "pod");
    const told = await one.history("pod");
    assert.deepEqual(
      told.map(({ event, backend, reason, evidence }) => [event, backend, reason, evidence]),
      [
        ["circuit_opened", "pod", "backend_down", "the API server is away"],
        ["circuit_closed", "pod", undefined, undefined],
      ],
    );
  });

  it("I9 tells nothing, and writes nothing else, while nothing happens", async () => {
    const opened = await jetStream.open();
    const one = createCore(opened);
    const [lane] = one.core.lanes;
    assert.ok(lane !== undefined);
    await one.start();
    const manager = await opened.link.nats.jetstreamManager();
    const { stream } = opened.settings;
    const written = async () =>
      Promise.all(
        [stream, `KV_${stream}_STATE`, eventStream(stream)].map(
          async (name) => (await manager.streams.info(name)).state.last_seq,
        ),
      );
    const passes = new Set<number | undefined>();
    await eventually("the loops have gone round many times", () => {
      passes.add(lane.reconciler.passedAt());
      return passes.size > 20;
    });
    assert.deepEqual(await written(), [0, 0, 0]);
    assert.deepEqual(one.events.figures(), { waiting: 0, dropped: 0 });
  });
});

function attemptOf(record: Parameters<typeof currentAttempt>[0]): Parameters<typeof executorName> {
  const attempt = currentAttempt(record);
  assert.ok(attempt !== undefined);
  return [record.assignment, attempt];
}
