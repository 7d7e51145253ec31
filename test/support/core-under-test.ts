import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type Client, createClient, createRouterTransport } from "@connectrpc/connect";
import { defaultTimes } from "../../controller/assignment/times.ts";
import { type Core, createCore } from "../../controller/core.ts";
import type { CorePorts, CoreSettings } from "../../controller/core-ports.ts";
import { createRunnerService } from "../../controller/facade/runner-service.ts";
import { createTroubleBoard } from "../../controller/health/troubles.ts";
import { fromGitea } from "../../controller/protocol/errors.ts";
import { readTask } from "../../controller/protocol/read-task.ts";
import {
  FetchTaskResponseSchema,
  RunnerService,
  TaskSchema,
  UpdateLogRequestSchema,
  UpdateLogResponseSchema,
  UpdateTaskRequestSchema,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeBackend, type FakeBackend } from "../fakes/fake-backend.ts";
import { createFakeClock, type FakeClock } from "../fakes/fake-clock.ts";
import { createGiteaModel, type GiteaModel } from "../fakes/fake-gitea-model.ts";
import { createFakeQueue, type FakeQueue } from "../fakes/fake-queue.ts";
import { createFakeRecordStore, type FakeRecordStore } from "../fakes/fake-record-store.ts";
import { createFakeReportStore } from "../fakes/fake-report-store.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import { anExecutorMetadata, testTrustDomain } from "./builders.ts";
import { type CallerInit, callerHeaders, keyRing, withHeaders } from "./facade-under-test.ts";

export type CoreUnderTest = {
  readonly core: Core;
  readonly model: GiteaModel;
  /** Reports that Gitea got, of any kind. */
  readonly updates: () => number;
  readonly queue: FakeQueue;
  readonly store: FakeRecordStore;
  readonly backend: FakeBackend;
  readonly clock: FakeClock;
  readonly log: RecordingLogger;
  /** Nothing can be published from now on, or can again. */
  setQueueAway(away: boolean): void;
  /** An executor's calls, without a network. */
  client(init: CallerInit & { readonly peer: string }): Client<typeof RunnerService>;
};

/** The whole core between fakes, with one backend for Pods. */
export function createCoreUnderTest(
  ports: Partial<CorePorts> = {},
  clock: FakeClock = createFakeClock(),
): CoreUnderTest {
  const log = createRecordingLogger();
  const model = createGiteaModel(() => clock.now());
  const queue = createFakeQueue(clock);
  const store = createFakeRecordStore();
  const backend = createFakeBackend({ kind: "pod", clock });
  let nonces = 0;
  let updates = 0;
  let queueAway = false;
  const core = createCore(
    { ...coreSettings, times: defaultTimes },
    {
      gitea: registeredAt(model, () => void updates++),
      queue: {
        next: (...args) => queue.next(...args),
        remove: (...args) => queue.remove(...args),
        scan: () => queue.scan(),
        scanAfter: async function* (after) {
          for await (const message of queue.scan()) if (message.sequence > after) yield message;
        },
        has: async (sequence, id) => {
          for await (const { sequence: other, content } of queue.scan())
            if (other === sequence && content.kind === "assignment") return content.assignment.id === id;
          return false;
        },
        position: async () => ({ created: "once", lastSequence: 0, messages: queue.size }),
        publish: async ({ assignment, fetchedAt, compressedTask }) => {
          await Promise.resolve();
          if (queueAway) throw new Error("no responders");
          const sequence = queue.publish({ kind: "assignment", assignment, fetchedAt, compressedTask });
          return { sequence };
        },
      },
      records: {
        list: () => store.list(),
        create: (...args) => store.create(...args),
        update: (...args) => store.update(...args),
        remove: async (id, _revision, signal) => {
          await store.remove(id, signal);
          return { kind: "removed" };
        },
      },
      reports: { ...createFakeReportStore(), sweep: async () => 0 },
      events: { publish: () => undefined },
      backends: [{ backend, capacity: 1, backlog: 1, timeoutMs: 14_400_000, run: untilAborted }],
      read: readAnyTask,
      // Compression would take the machine's own time.
      compress: async (task) => toBinary(TaskSchema, task),
      decompress: async (bytes) => fromBinary(TaskSchema, bytes),
      newNonce: () => String(++nonces).padStart(32, "0"),
      countRefusal: () => undefined,
      troubles: createTroubleBoard(clock),
      clock,
      random: () => 0.5,
      log,
      ...ports,
    },
  );
  return {
    core,
    model,
    updates: () => updates,
    queue,
    store,
    backend,
    clock,
    log,
    setQueueAway: (away) => void (queueAway = away),
    client: (init) => executorOf(core, init),
  };
}

export const coreSettings: Omit<CoreSettings, "times"> = {
  owner: anExecutorMetadata().owner,
  keyRing,
  facade: { url: "https://facade.example.org:8443", spiffeId: "spiffe://example.org/controller" },
  vmLabel: "vm",
};

export const readAnyTask: CorePorts["read"] = (task) =>
  readTask({ trustDomain: testTrustDomain, allowForksOnPods: false }, task);

/** An executor's calls of a core's facade, without a network. */
export function executorOf(
  core: Core,
  init: CallerInit & { readonly peer: string },
): Client<typeof RunnerService> {
  const service = createRunnerService({
    ...core.facade,
    peerOf: () => ({ ok: true, id: init.peer }),
    onOver: () => undefined,
    onWork: () => undefined,
  });
  const transport = createRouterTransport((router) => router.service(RunnerService, service), {
    transport: { interceptors: [withHeaders(callerHeaders(init))] },
  });
  return createClient(RunnerService, transport);
}

/** Gitea's answers to one registered runner, never at once. */
export function registeredAt(model: GiteaModel, onUpdate: () => void = () => undefined): CorePorts["gitea"] {
  const runner = model.runners[0] ?? model.addRunner();
  const answer = async <T>(doing: string, effect: () => T): Promise<T> => {
    await Promise.resolve();
    try {
      return effect();
    } catch (error) {
      throw fromGitea(doing, new ConnectError(String(error), Code.Unknown));
    }
  };
  const stays = new AbortController().signal;
  return {
    declare: (labels) =>
      answer("declare", () => {
        Object.assign(runner, { labels, cancelling: true });
        return undefined;
      }),
    fetchTask: (version) =>
      answer("fetch", () => create(FetchTaskResponseSchema, model.fetchTask(runner, version, false, stays))),
    updateTask: (request) => {
      onUpdate();
      return answer("update", () =>
        create(UpdateTaskResponseSchema, model.updateTask(runner, create(UpdateTaskRequestSchema, request))),
      );
    },
    updateLog: (request) =>
      answer("log", () =>
        create(UpdateLogResponseSchema, model.updateLog(runner, create(UpdateLogRequestSchema, request))),
      ),
  };
}

export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => {
      reject(signal.reason as Error);
    });
  });
}
