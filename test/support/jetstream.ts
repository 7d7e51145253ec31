import { randomBytes, randomUUID } from "node:crypto";
import { after, afterEach } from "mocha";
import type { Assignment } from "../../controller/assignment/assignment.ts";
import { type KeyRing, parseKeyRing } from "../../controller/identity/key-ring.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createKeyValue } from "../../controller/platform/key-value.ts";
import { connectNats, type NatsLink } from "../../controller/platform/nats-connection.ts";
import {
  type AssignmentQueue,
  type AssignmentQueueOptions,
  createAssignmentQueue,
} from "../../controller/queue/assignment-queue.ts";
import { createStreams } from "../../controller/queue/prepare-streams.ts";
import { defaultStreamTimes, type StreamSettings, wantedStreams } from "../../controller/queue/streams.ts";
import { createRecordStore, type RecordStore } from "../../controller/record/record-store.ts";
import {
  createReportStore,
  reportPartBytes,
  type ReportStore,
  type ReportStoreOptions,
} from "../../controller/record/report-store.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import { anAssignment, testStart } from "./builders.ts";
import type { NatsUnderTest } from "./nats.ts";

/** Long enough for every server that answers. */
export const soon = () => AbortSignal.timeout(50_000);

/** The way to the bucket, if it is not to be the usual one. */
export type BucketOptions = { readonly connection?: NatsLink; readonly requestMs?: number };

export type JetStreamUnderTest = {
  readonly link: NatsLink;
  readonly log: RecordingLogger;
  readonly settings: StreamSettings;
  readonly queue: (options?: Partial<AssignmentQueueOptions>) => AssignmentQueue;
  readonly records: (options?: BucketOptions) => RecordStore;
  readonly reports: (options?: BucketOptions & Partial<ReportStoreOptions>) => ReportStore;
};

/** Gives each test a connection of its own and streams of its own; the connection is closed after the test. */
export function useJetStream(nats: NatsUnderTest) {
  const links: NatsLink[] = [];
  const over = new AbortController();
  let number = 0;
  const close = () => Promise.all(links.splice(0).map((link) => link.close()));
  afterEach("close the connections to nats-server", async () => {
    // What a test that failed left behind must not fail the next one.
    await nats.start();
    nats.resume();
    await close();
  });
  after("close the connections that came late", async () => {
    over.abort();
    await close();
  });
  const connect = async (log: RecordingLogger) => {
    const { url, user, password } = nats;
    const settings = { url, user, password, clock: systemClock, log, retryMs: 50 };
    const link = await connectNats(settings, AbortSignal.any([soon(), over.signal]));
    links.push(link);
    return link;
  };
  return {
    connect,
    open: async (
      overrides: {
        readonly ackWaitMs?: number;
        readonly duplicateWindowMs?: number;
        readonly capacity?: number;
        readonly create?: boolean;
      } = {},
    ): Promise<JetStreamUnderTest> => {
      const { capacity = 4, create = true, ...times } = overrides;
      const log = createRecordingLogger();
      const link = await connect(log);
      const stream = `TEST_${++number}`;
      const settings = {
        stream,
        subjectBase: `test.${number}`,
        capacity: { pod: capacity, vm: capacity },
        times: { ...defaultStreamTimes, ...times },
      };
      if (create) await createStreams(link, wantedStreams(settings), soon());
      return {
        link,
        log,
        settings,
        queue: (options = {}) =>
          createAssignmentQueue({
            connection: link,
            keyRing: testKeyRing(1),
            stream,
            subjectBase: settings.subjectBase,
            assignmentOf: statedAssignment,
            randomBytes,
            clock: systemClock,
            ...options,
          }),
        records: ({ connection = link, requestMs: timeoutMs = 5_000 } = {}) =>
          createRecordStore({
            bucket: createKeyValue({ link: connection, bucket: `${stream}_STATE`, timeoutMs }),
            writerId: randomUUID(),
            log,
          }),
        reports: ({ connection = link, requestMs: timeoutMs = 5_000, ...options } = {}) =>
          createReportStore({
            bucket: createKeyValue({ link: connection, bucket: `${stream}_STATE`, timeoutMs }),
            keyRing: testKeyRing(1),
            randomBytes,
            partBytes: reportPartBytes(link.nats.info?.max_payload),
            ...options,
          }),
      };
    },
  };
}

/** A ring of the keys with these numbers, the first one seals. */
export function testKeyRing(...numbers: readonly number[]): KeyRing {
  return parseKeyRing(numbers.map((number) => String(number).repeat(40)).join("\n"));
}

/** Stands for a compressed task in tests of the queue: it says which assignment it makes, and holds a secret. */
export function aStoredTask(overrides: Partial<Assignment> = {}, secret = "no secret") {
  const assignment = anAssignment(overrides);
  const stated = { ...assignment, taskId: String(assignment.taskId) };
  return {
    assignment,
    fetchedAt: testStart,
    compressedTask: Buffer.from(JSON.stringify({ stated, secret })) as Uint8Array,
  };
}

/** The counterpart of `aStoredTask`. */
export function statedAssignment(compressedTask: Uint8Array): Assignment {
  const { stated } = JSON.parse(Buffer.from(compressedTask).toString()) as {
    stated: Omit<Assignment, "taskId"> & { taskId: string };
  };
  return { ...stated, taskId: BigInt(stated.taskId) };
}
