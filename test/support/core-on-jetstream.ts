import { randomBytes, randomUUID } from "node:crypto";
import type { Client } from "@connectrpc/connect";
import { afterEach } from "mocha";
import { type AssignmentRecord, currentAttempt } from "../../controller/assignment/record.ts";
import { defaultTimes, type Times } from "../../controller/assignment/times.ts";
import { type Core, createCore } from "../../controller/core.ts";
import type { CorePorts } from "../../controller/core-ports.ts";
import { createEventLog, type EventLog } from "../../controller/events/event-log.ts";
import { readEvents } from "../../controller/events/read-events.ts";
import type { StoredEvent } from "../../controller/events/stored-event.ts";
import { createTroubleBoard, type TroubleBoard } from "../../controller/health/troubles.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { runTasks } from "../../controller/platform/task-group.ts";
import { compressTask, decompressTask } from "../../controller/protocol/compressed-task.ts";
import { eventStream, eventSubject } from "../../controller/queue/streams.ts";
import type { RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeBackend, type FakeBackend, type FakeBackendWorld } from "../fakes/fake-backend.ts";
import { createGiteaModel, type FakeJob, type GiteaModel } from "../fakes/fake-gitea-model.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import { coreSettings, executorOf, readAnyTask, registeredAt, untilAborted } from "./core-under-test.ts";
import { eventually } from "./eventually.ts";
import { keyRing } from "./facade-under-test.ts";
import { type JetStreamUnderTest, soon } from "./jetstream.ts";

/** The whole core with its queue, records and events in a real nats-server; Gitea and the backend are models. */
export type CoreOnJetStream = {
  readonly core: Core;
  readonly model: GiteaModel;
  readonly backend: FakeBackend;
  readonly events: EventLog;
  readonly troubles: TroubleBoard;
  readonly log: RecordingLogger;
  /** Recovers, then runs until `stop`, or the end of the test. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Of a job's assignment, as soon as there is one that fits. */
  record(job: FakeJob, fits?: (record: AssignmentRecord) => boolean): Promise<AssignmentRecord>;
  /** The calls of the executor of its current attempt. */
  executor(record: AssignmentRecord): Client<typeof RunnerService>;
  /** What history has of an assignment or a backend. */
  history(about: string): Promise<readonly StoredEvent[]>;
};

export type CoreOnJetStreamOptions = {
  readonly capacity?: number;
  readonly times?: Partial<Times>;
  /** Of an earlier one: this one is the next controller. */
  readonly after?: CoreOnJetStream;
  /** Gitea's answers, if they are not to be the model's. */
  readonly gitea?: (model: GiteaModel) => CorePorts["gitea"];
  /** How long an executor may live. */
  readonly timeoutMs?: number;
};

/** Tens of times as fast as usual, and slow enough for a busy machine. */
const quickTimes: Times = {
  ...defaultTimes,
  againMs: 100,
  retryMs: 250,
  beatMs: 500,
  attemptDelayMs: 100,
  terminalGraceMs: 500,
  absentMs: 1_000,
  lingerMs: 2_000,
  reconcileMs: 100,
  compareStreamMs: 200,
  callMs: 5_000,
};

/** Makes cores; those that run are stopped after each test. */
export function useCoreOnJetStream() {
  const running = new Set<CoreOnJetStream>();
  afterEach("stop the cores", async () => {
    for (const one of running) await one.stop();
  });
  return (opened: JetStreamUnderTest, options: CoreOnJetStreamOptions = {}): CoreOnJetStream => {
    const one = createCoreOn(opened, options);
    const watched: CoreOnJetStream = {
      ...one,
      start: async () => {
        running.add(watched);
        await one.start();
      },
      stop: async () => {
        running.delete(watched);
        await one.stop();
      },
    };
    return watched;
  };
}

function createCoreOn(
  { link, settings, queue, records, reports }: JetStreamUnderTest,
  { capacity = 2, times, after, gitea = registeredAt, timeoutMs = 14_400_000 }: CoreOnJetStreamOptions,
): CoreOnJetStream {
  const clock = systemClock;
  const log = createRecordingLogger();
  const troubles = createTroubleBoard(clock);
  const model = after?.model ?? createGiteaModel(() => clock.now());
  const world: FakeBackendWorld | undefined = after?.backend.world;
  const backend = createFakeBackend({ kind: "pod", clock, ...(world === undefined ? {} : { world }) });
  const assignmentOf = async (compressed: Uint8Array) => {
    const reading = readAnyTask(await decompressTask(compressed));
    if (!reading.ok) throw new Error(reading.failure.reason);
    return reading.assignment;
  };
  const stream = eventStream(settings.stream);
  const subject = (about: string) => eventSubject(settings.subjectBase, about);
  const events = createEventLog({
    link,
    stream,
    subject,
    controller: "controller-0",
    instance: randomUUID(),
    clock,
    random: () => 0.5,
    log,
  });
  const core = createCore(
    { ...coreSettings, times: { ...quickTimes, ...times } },
    {
      gitea: gitea(model),
      queue: queue({ assignmentOf, keyRing }),
      records: records(),
      reports: reports({ keyRing }),
      events,
      backends: [{ backend, capacity, backlog: 4, timeoutMs, run: untilAborted }],
      read: readAnyTask,
      compress: compressTask,
      decompress: decompressTask,
      newNonce: () => randomBytes(16).toString("hex"),
      countRefusal: () => undefined,
      troubles,
      clock,
      random: () => 0.5,
      log,
    },
  );
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  return {
    core,
    model,
    backend,
    events,
    troubles,
    log,
    start: async () => {
      await core.recover(soon());
      const history = { name: "events", run: (signal: AbortSignal) => events.run(signal) };
      running = runTasks([...core.leaderTasks, ...core.relayTasks, history], stopping.signal);
      // Whoever stops it hears of a failure.
      running.catch(() => undefined);
    },
    stop: async () => {
      stopping.abort(new Error("the test is over"));
      await running;
    },
    record: async (job, fits = () => true) => {
      let found: AssignmentRecord | undefined;
      await eventually("the assignment is so far", () => {
        const all = core.assignments.all().map(({ record }) => record);
        found = all.find((one) => one.assignment.taskId === job.task?.id && fits(one));
        return found !== undefined;
      });
      if (found === undefined) throw new Error("it came and went");
      return found;
    },
    executor: (record) => {
      const { assignment } = record;
      const attempt = currentAttempt(record);
      if (attempt === undefined) throw new Error(`${assignment.id} has no attempt`);
      return executorOf(core, { assignment, attempt, peer: assignment.spiffeId });
    },
    history: async (about) => (await readEvents({ link, stream, subject }, about, soon())).events,
  };
}
