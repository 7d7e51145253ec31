import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { TaskSchema } from "../../proto/gen/runner/v1/runner_pb.ts";
import { defaultTimes } from "../../controller/assignment/times.ts";
import { createCore } from "../../controller/core.ts";
import type { CoreBackend } from "../../controller/core-ports.ts";
import type { Peer as FacadePeer } from "../../controller/facade/admit.ts";
import { createRunnerService } from "../../controller/facade/runner-service.ts";
import { createTroubleBoard } from "../../controller/health/troubles.ts";
import type { KeyRing } from "../../controller/identity/key-ring.ts";
import { describeError } from "../../controller/platform/errors.ts";
import { isAbortOf } from "../../controller/platform/signal.ts";
import { runTasks, type Task } from "../../controller/platform/task-group.ts";
import { readTask } from "../../controller/protocol/read-task.ts";
import { createRecordStore } from "../../controller/record/record-store.ts";
import { createReportStore } from "../../controller/record/report-store.ts";
import type { History } from "./history.ts";
import type { Observe } from "./observed.ts";
import type { Prng } from "./prng.ts";
import { createSimBackend } from "./sim-backend.ts";
import type { SimClock } from "./sim-clock.ts";
import type { SimCluster } from "./sim-cluster.ts";
import { simPeer, type SimFacade } from "./sim-facade.ts";
import type { SimGitea } from "./sim-gitea.ts";
import type { SimBucket } from "./sim-key-value.ts";
import { createSimLogger } from "./sim-log.ts";
import type { SimNetwork } from "./sim-network.ts";
import { createSimProcess, type SimProcess } from "./sim-process.ts";
import { createSimQueue } from "./sim-queue.ts";
import type { SimStream } from "./sim-stream.ts";
import { simLimits } from "./sim-times.ts";

export const simOwner = "8f14e45f-ceea-467f-a0e6-c4e8e1c8a1b2";
export const simTrustDomain = "example.org";

export type SimController = {
  readonly process: SimProcess;
  /** It has read what there is, and serves. */
  readonly serves: boolean;
  /** The lease is lost: leader work stops, relaying goes on. */
  stopLeading(): void;
  /** Another holder is seen, or SIGTERM: everything stops, in order. */
  stop(): void;
  /** What it threw, in words, if it failed by itself. */
  failure(): string | undefined;
};

export type SimControllerOptions = {
  readonly name: string;
  readonly clock: SimClock;
  readonly prng: Prng;
  readonly history: History;
  readonly observe: Observe;
  readonly network: SimNetwork;
  readonly gitea: SimGitea;
  readonly stream: SimStream;
  readonly bucket: SimBucket;
  readonly facade: SimFacade;
  readonly backends: readonly { readonly cluster: SimCluster; readonly capacity: number }[];
  readonly keyRing: KeyRing;
  /** Names the first of its keys; messages are sealed with that one. */
  readonly keyIds: readonly string[];
  /** It has recovered, and serves from now on. */
  readonly onServing: () => void;
};

/** A controller's core between simulated peers, as controller.ts puts it between real ones. */
export function startSimController(options: SimControllerOptions): SimController {
  const { name, clock: world, prng, history, observe, network, gitea, facade, keyRing, keyIds } = options;
  const process = createSimProcess(name, world);
  const { clock } = process;
  const log = createSimLogger(name, history);
  const bucket = options.bucket.keyValueFor(process);
  const lead = new AbortController();
  const serve = new AbortController();
  let serves = false;
  let failure: string | undefined;

  const core = createCore(
    {
      owner: simOwner,
      keyRing,
      facade: { url: "https://facade:8443", spiffeId: `spiffe://${simTrustDomain}/controller` },
      vmLabel: "vm",
      times: defaultTimes,
    },
    {
      gitea: gitea.clientFor(process),
      queue: createSimQueue({ clock: world, network, stream: options.stream, process, keyIds }),
      records: createRecordStore({ bucket, writerId: prng.hex(32), log }),
      reports: createReportStore({
        bucket,
        keyRing,
        randomBytes: (size) => Buffer.from(prng.hex(2 * size), "hex"),
        partBytes: 512 * 1024,
      }),
      events: { publish: () => undefined },
      backends: options.backends.map(({ cluster, capacity }): CoreBackend => ({
        backend: createSimBackend({ cluster, network, process, observe }),
        capacity,
        backlog: capacity,
        timeoutMs: simLimits.timeoutMs,
        run: untilAborted,
      })),
      read: (task) => readTask({ trustDomain: simTrustDomain, allowForksOnPods: false }, task),
      // Compression would take the machine's own time.
      compress: async (task) => toBinary(TaskSchema, task),
      decompress: async (bytes) => fromBinary(TaskSchema, bytes),
      newNonce: () => prng.hex(32),
      countRefusal: () => undefined,
      mustLead: () => {
        lead.signal.throwIfAborted();
      },
      troubles: createTroubleBoard(clock),
      clock,
      random: () => prng.next(),
      log,
    },
  );
  const service = createRunnerService({
    ...core.facade,
    peerOf: (context) => (context as unknown as { readonly [simPeer]: FacadePeer })[simPeer],
    onOver: () => undefined,
    onWork: () => undefined,
  });

  const live = async () => {
    const both = AbortSignal.any([lead.signal, serve.signal]);
    await core.recover(both);
    const close = facade.listen(process, service);
    serves = true;
    options.onServing();
    try {
      const leaderTasks = core.leaderTasks.map((task): Task => ({
        name: task.name,
        run: (leading) => task.run(leading, serve.signal),
      }));
      await Promise.all([runTasks(leaderTasks, both), runTasks(core.relayTasks, serve.signal)]);
    } finally {
      close();
    }
  };
  live().catch((error: unknown) => {
    if (isAbortOf(serve.signal, error) || isAbortOf(lead.signal, error)) return;
    failure = describeError(error);
    history.note(`${name} failed: ${error instanceof Error ? (error.stack ?? failure) : failure}`);
  });

  return {
    process,
    get serves() {
      return serves;
    },
    stopLeading: () => {
      lead.abort(new Error("the lease is lost"));
    },
    stop: () => {
      serve.abort(new Error("SIGTERM"));
    },
    failure: () => failure,
  };
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => {
      reject(signal.reason as Error);
    });
  });
}
