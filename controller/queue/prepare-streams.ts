import { type ConsumerConfig, type JetStreamManager, type StreamConfig } from "nats";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { apiErrorCode, apiErrors } from "../platform/jetstream.ts";
import type { Logger } from "../platform/logger.ts";
import type { NatsLink } from "../platform/nats-connection.ts";
import { checkStreams, type FoundStreams } from "./check-streams.ts";
import { fromJetStream } from "./from-jetstream.ts";
import type { WantedStream, WantedStreams } from "./streams.ts";

/** What exists in JetStream does not fit: a configuration error, the message says all that differs. */
export class StreamMismatchError extends Error {
  override readonly name = "StreamMismatchError";
}

const requestMs = 5_000;
const retryMs = 2_000;
const remindMs = 30_000;

/** Reads what is there; rejects with QueueUnavailableError. */
export async function findStreams(
  link: NatsLink,
  wanted: WantedStreams,
  signal: AbortSignal,
): Promise<FoundStreams> {
  const stream = ({ name }: WantedStream) =>
    managed(link, `reading stream ${name}`, signal, async (manager) => {
      const config: StreamConfig | undefined = (await unlessMissing(manager.streams.info(name)))?.config;
      return config;
    });
  const queue = await stream(wanted.queue);
  const consumers = new Map<string, ConsumerConfig>();
  for (const { durable_name: name } of queue === undefined ? [] : wanted.consumers) {
    const info = await managed(link, `reading consumer ${name}`, signal, (manager) =>
      unlessMissing(manager.consumers.info(wanted.queue.name, name)),
    );
    if (info !== undefined) consumers.set(name, info.config);
  }
  const [state, events] = [await stream(wanted.state), await stream(wanted.events)];
  return { queue, consumers, state, events, maxPayload: link.nats.info?.max_payload ?? Infinity };
}

/**
 * Waits until all that is needed is there, loudly: what is missing is logged at each change and every 30 s.
 * Rejects with StreamMismatchError when something is there that does not fit. Other differences are warnings.
 */
export async function waitForStreams(
  {
    link,
    wanted,
    clock,
    log,
  }: {
    readonly link: NatsLink;
    readonly wanted: WantedStreams;
    readonly clock: Clock;
    readonly log: Logger;
  },
  signal: AbortSignal,
): Promise<void> {
  let said: { readonly text: string; readonly at: number } | undefined;
  for (;;) {
    let obstacle: string;
    try {
      const { fatal, missing, warnings } = checkStreams(wanted, await findStreams(link, wanted, signal));
      if (fatal.length > 0) throw new StreamMismatchError(fatal.join("; "));
      if (missing.length === 0) {
        for (const warning of warnings) log.warn({ difference: warning }, "jetstream is not as recommended");
        return;
      }
      obstacle = `missing: ${missing.join(", ")}`;
    } catch (error) {
      if (error instanceof StreamMismatchError) throw error;
      signal.throwIfAborted();
      obstacle = describeError(error);
    }
    if (obstacle !== said?.text || clock.now() - said.at >= remindMs) {
      log.error({ error: obstacle }, "jetstream is not ready, waiting for it");
      said = { text: obstacle, at: clock.now() };
    }
    await clock.sleep(retryMs, signal);
  }
}

/**
 * Makes what is missing, for the quick start only: elsewhere Pulumi owns all of it. What is there stays as it is,
 * except for the consumers' capacity. Rejects with QueueUnavailableError; doing it again is harmless.
 */
export async function createStreams(
  link: NatsLink,
  wanted: WantedStreams,
  signal: AbortSignal,
): Promise<void> {
  const found = await findStreams(link, wanted, signal);
  const absent: WantedStream[] = [];
  if (found.queue === undefined) absent.push(wanted.queue);
  if (found.state === undefined) absent.push(wanted.state);
  if (found.events === undefined) absent.push(wanted.events);
  for (const config of absent) {
    await managed(link, `creating stream ${config.name}`, signal, async (manager) => {
      try {
        await manager.streams.add({ ...config });
      } catch (error) {
        if (apiErrorCode(error) !== apiErrors.streamNameInUse) throw error;
      }
    });
  }
  for (const config of wanted.consumers) {
    const { durable_name: name, max_ack_pending: capacity } = config;
    const present = found.consumers.get(name);
    if (present?.max_ack_pending === capacity) continue;
    await managed(link, `creating consumer ${name}`, signal, async (manager) => {
      if (present === undefined) await manager.consumers.add(wanted.queue.name, { ...config });
      else await manager.consumers.update(wanted.queue.name, name, { max_ack_pending: capacity });
    });
  }
}

async function managed<T>(
  link: NatsLink,
  doing: string,
  signal: AbortSignal,
  request: (manager: JetStreamManager) => Promise<T>,
): Promise<T> {
  try {
    return await link.exchange(
      async () => request(await link.nats.jetstreamManager({ checkAPI: false, timeout: requestMs })),
      signal,
    );
  } catch (error) {
    throw fromJetStream(doing, error, signal);
  }
}

async function unlessMissing<T>(info: Promise<T>): Promise<T | undefined> {
  try {
    return await info;
  } catch (error) {
    const code = apiErrorCode(error);
    if (code === apiErrors.streamNotFound || code === apiErrors.consumerNotFound) return undefined;
    throw error;
  }
}
