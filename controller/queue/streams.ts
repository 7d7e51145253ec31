import {
  AckPolicy,
  type ConsumerConfig,
  DeliverPolicy,
  DiscardPolicy,
  nanos,
  ReplayPolicy,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from "nats";
import { type BackendKind, backendKinds } from "../assignment/backend-kind.ts";
import { bucketStream } from "../platform/jetstream.ts";

export type StreamSettings = {
  /** `NATS_STREAM`; bucket and event stream take their names from it. */
  readonly stream: string;
  /** `NATS_SUBJECT_BASE`. */
  readonly subjectBase: string;
  /** Max ack pending of each consumer. */
  readonly capacity: Readonly<Record<BackendKind, number>>;
  readonly times?: StreamTimes;
};

export type StreamTimes = {
  /** A message that nobody acks or reports progress on is delivered again after this. */
  readonly ackWaitMs: number;
  /** As long as this the server knows a message id again. */
  readonly duplicateWindowMs: number;
  readonly eventAgeMs: number;
};

export const defaultStreamTimes: StreamTimes = {
  ackWaitMs: 60_000,
  duplicateWindowMs: 60 * 60_000,
  eventAgeMs: 7 * 24 * 60 * 60_000,
};

export const maxDeliver = 1000;

export type WantedStream = Pick<
  StreamConfig,
  | "name"
  | "subjects"
  | "retention"
  | "storage"
  | "discard"
  | "max_age"
  | "duplicate_window"
  | "max_msgs_per_subject"
> &
  Partial<StreamConfig>;

export type WantedConsumer = Required<
  Pick<
    ConsumerConfig,
    "durable_name" | "filter_subject" | "ack_policy" | "ack_wait" | "max_deliver" | "max_ack_pending"
  >
> &
  ConsumerConfig;

/** What JetStream has to hold for the controller. */
export type WantedStreams = {
  /** Assignments: each message stays until it is acked, whatever that takes. */
  readonly queue: WantedStream;
  readonly consumers: readonly WantedConsumer[];
  /** The stream behind the state bucket. */
  readonly state: WantedStream;
  /** History for people; nothing depends on it. */
  readonly events: WantedStream;
};

/** The bucket of the records. */
export function stateBucket(stream: string): string {
  return `${stream}_STATE`;
}

/** The stream of the events. */
export function eventStream(stream: string): string {
  return `${stream}_EVENTS`;
}

/** Where a backend's assignments are published. */
export function assignmentSubject(subjectBase: string, backend: BackendKind): string {
  return `${subjectBase}.${backend}`;
}

/** Where an assignment's events are published: one level below what the queue takes. */
export function eventSubject(subjectBase: string, assignmentId: string): string {
  return `${subjectBase}.events.${assignmentId}`;
}

export function wantedStreams(settings: StreamSettings): WantedStreams {
  const { stream, subjectBase, capacity, times = defaultStreamTimes } = settings;
  const bucket = stateBucket(stream);
  return {
    queue: {
      name: stream,
      subjects: [`${subjectBase}.*`],
      retention: RetentionPolicy.Workqueue,
      storage: StorageType.File,
      discard: DiscardPolicy.New,
      max_age: 0,
      max_msgs_per_subject: -1,
      duplicate_window: nanos(times.duplicateWindowMs),
    },
    consumers: backendKinds.map((backend) => ({
      durable_name: backend,
      filter_subject: assignmentSubject(subjectBase, backend),
      ack_policy: AckPolicy.Explicit,
      deliver_policy: DeliverPolicy.All,
      replay_policy: ReplayPolicy.Instant,
      ack_wait: nanos(times.ackWaitMs),
      max_deliver: maxDeliver,
      max_ack_pending: capacity[backend],
    })),
    state: {
      name: bucketStream(bucket),
      subjects: [`$KV.${bucket}.>`],
      retention: RetentionPolicy.Limits,
      storage: StorageType.File,
      discard: DiscardPolicy.New,
      max_age: 0,
      max_msgs_per_subject: 1,
      duplicate_window: nanos(120_000),
      // As every client of the key-value store makes its buckets.
      allow_rollup_hdrs: true,
      deny_delete: true,
      allow_direct: true,
    },
    events: {
      name: eventStream(stream),
      subjects: [eventSubject(subjectBase, "*")],
      retention: RetentionPolicy.Limits,
      storage: StorageType.File,
      discard: DiscardPolicy.Old,
      max_age: nanos(times.eventAgeMs),
      max_msgs_per_subject: -1,
      duplicate_window: nanos(120_000),
    },
  };
}
