import { randomBytes } from "node:crypto";
import { describeFailure } from "./assignment/failure.ts";
import type { Config } from "./config.ts";
import type { CorePorts } from "./core-ports.ts";
import { isOutage } from "./outage.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import { createKeyValue } from "./platform/key-value.ts";
import type { Logger } from "./platform/logger.ts";
import type { NatsLink } from "./platform/nats-connection.ts";
import { persist } from "./platform/persist.ts";
import { decompressTask } from "./protocol/compressed-task.ts";
import { createAssignmentQueue } from "./queue/assignment-queue.ts";
import { createStreams, waitForStreams } from "./queue/prepare-streams.ts";
import { stateBucket, wantedStreams } from "./queue/streams.ts";
import { createLeaderKey, type LeaderKey } from "./record/leader-key.ts";
import { createRecordStore } from "./record/record-store.ts";
import { createReportStore, reportPartBytes } from "./record/report-store.ts";

export type StoresOptions = {
  readonly connection: NatsLink;
  /** Of this process, and of no other one before or after it. */
  readonly instance: string;
  /** Its name in the Lease. */
  readonly identity: string;
  readonly read: CorePorts["read"];
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

/** All that is kept in NATS, history aside. */
export type Stores = Pick<CorePorts, "queue" | "records" | "reports"> & { readonly leaderKey: LeaderKey };

/** Waits until JetStream holds what is needed; the quick start makes it. Rejects if what is there does not fit. */
export async function prepareStreams(
  config: Config,
  { connection, clock, random, log }: Pick<StoresOptions, "connection" | "clock" | "random" | "log">,
  signal: AbortSignal,
): Promise<void> {
  const { stream, subjectBase } = config.nats;
  const capacity = { pod: 1, vm: 1 };
  for (const backend of config.backends) capacity[backend.kind] = backend.capacity;
  const wanted = wantedStreams({ stream, subjectBase, capacity, times: config.streamTimes });
  // Elsewhere Pulumi makes them.
  if (config.local !== undefined)
    await persist(
      (abort) => createStreams(connection, wanted, abort),
      {
        doing: "making streams",
        passing: isOutage,
        clock,
        random,
        log: log.child({ component: "lifecycle" }),
      },
      signal,
    );
  await waitForStreams({ link: connection, wanted, clock, log: log.child({ component: "queue" }) }, signal);
}

export function openStores(
  { nats: { stream, subjectBase }, keyRing, leaseTimes }: Config,
  { connection, instance, identity, read, clock, log }: StoresOptions,
): Stores {
  const bucket = createKeyValue({ link: connection, bucket: stateBucket(stream) });
  return {
    queue: createAssignmentQueue({
      connection,
      keyRing,
      stream,
      subjectBase,
      assignmentOf: async (compressed) => {
        const reading = read(await decompressTask(compressed));
        if (!reading.ok) throw new Error(describeFailure(reading.failure));
        return reading.assignment;
      },
      randomBytes,
      clock,
    }),
    records: createRecordStore({ bucket, writerId: instance, log: log.child({ component: "record" }) }),
    reports: createReportStore({
      bucket,
      keyRing,
      randomBytes,
      partBytes: reportPartBytes(connection.nats.info?.max_payload ?? Infinity),
    }),
    leaderKey: createLeaderKey({ bucket, identity, pollMs: leaseTimes.retryMs, clock }),
  };
}
