import { AckPolicy, type ConsumerConfig, type StreamConfig } from "nats";
import type { WantedConsumer, WantedStream, WantedStreams } from "./streams.ts";

/** What JetStream holds; a stream or consumer that is absent is missing. */
export type FoundStreams = {
  readonly queue: StreamConfig | undefined;
  /** By their durable name. */
  readonly consumers: ReadonlyMap<string, ConsumerConfig>;
  readonly state: StreamConfig | undefined;
  readonly events: StreamConfig | undefined;
  /** The server's `max_payload` in bytes. */
  readonly maxPayload: number;
};

/** Sentences for the operator. */
export type StreamFindings = {
  /** Running with this would lose or mix up jobs: the controller must not start. */
  readonly fatal: readonly string[];
  /** An outage: somebody has to make it, or it is coming back. */
  readonly missing: readonly string[];
  readonly warnings: readonly string[];
};

const recommendedMaxPayload = 8 * 1024 * 1024;

/** Compares what is there with what is needed. */
export function checkStreams(wanted: WantedStreams, found: FoundStreams): StreamFindings {
  const fatal: string[] = [];
  const missing: string[] = [];
  const warnings: string[] = [];

  const { queue, state } = found;
  if (queue === undefined) missing.push(`stream ${wanted.queue.name}`);
  else {
    fatal.push(...deadlyStreamDifferences(wanted.queue, queue));
    warnings.push(...streamDifferences(wanted.queue, queue), ...limits(queue));
    for (const consumer of wanted.consumers) {
      const present = found.consumers.get(consumer.durable_name);
      const name = `consumer ${consumer.durable_name} of ${queue.name}`;
      if (present === undefined) missing.push(name);
      else {
        fatal.push(...deadlyConsumerDifferences(name, consumer, present));
        warnings.push(...consumerDifferences(name, consumer, present));
      }
    }
  }
  if (state === undefined) missing.push(`bucket stream ${wanted.state.name}`);
  else {
    fatal.push(...deadlyStreamDifferences(wanted.state, state));
    if (state.deny_purge) fatal.push(`${state.name} has deny_purge, records could never be removed`);
    warnings.push(...streamDifferences(wanted.state, state), ...limits(state));
  }
  if (found.events === undefined)
    warnings.push(`stream ${wanted.events.name} is missing, no history is kept`);
  if (found.maxPayload < recommendedMaxPayload) {
    warnings.push(
      `the server's max_payload is ${found.maxPayload} bytes, jobs with larger tasks fail; ` +
        `${recommendedMaxPayload} is recommended`,
    );
  }
  return { fatal, missing, warnings };
}

function deadlyStreamDifferences(wanted: WantedStream, found: StreamConfig): string[] {
  return [
    ...difference(found.name, "retention", wanted.retention, found.retention),
    ...difference(found.name, "subjects", listed(wanted.subjects), listed(found.subjects)),
  ];
}

function streamDifferences(wanted: WantedStream, found: StreamConfig): string[] {
  const keys = ["storage", "discard", "max_age", "duplicate_window"] as const;
  return keys.flatMap((key) => difference(found.name, key, wanted[key], found[key]));
}

/** Limits that make the server refuse or drop messages; none is wanted. */
function limits(found: StreamConfig): string[] {
  const keys = ["max_msgs", "max_bytes", "max_msg_size"] as const;
  return keys.flatMap((key) => (found[key] > 0 ? [`${found.name} has ${key} ${found[key]}`] : []));
}

function deadlyConsumerDifferences(name: string, wanted: WantedConsumer, found: ConsumerConfig): string[] {
  const filters = found.filter_subjects ?? (found.filter_subject === undefined ? [] : [found.filter_subject]);
  return [
    ...difference(name, "ack policy", wanted.ack_policy, found.ack_policy ?? AckPolicy.None),
    ...difference(name, "filter", wanted.filter_subject, listed(filters)),
    ...(found.deliver_subject === undefined ? [] : [`${name} is a push consumer, a pull consumer is wanted`]),
  ];
}

function consumerDifferences(name: string, wanted: WantedConsumer, found: ConsumerConfig): string[] {
  const keys = ["ack_wait", "max_deliver", "max_ack_pending"] as const;
  return keys.flatMap((key) => difference(name, key, wanted[key], found[key]));
}

function difference(name: string, what: string, wanted: unknown, found: unknown): string[] {
  return wanted === found ? [] : [`${name} has ${what} ${String(found)}, ${String(wanted)} is wanted`];
}

function listed(subjects: readonly string[] | undefined): string {
  return (subjects ?? []).toSorted().join(" ");
}
