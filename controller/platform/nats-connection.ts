import { readFile } from "node:fs/promises";
import { connect, type ConnectionOptions, Events, type NatsConnection, type Status } from "nats";
import type { Clock } from "./clock.ts";
import { describeError } from "./errors.ts";
import type { Logger } from "./logger.ts";
import { abortable } from "./signal.ts";

export type NatsSettings = {
  /** `nats://host:4222` or `tls://…`, several divided by commas. */
  readonly url: string;
  readonly user?: string;
  readonly password?: string;
  /** PEM; makes TLS a must. */
  readonly caFile?: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** The pause between two tries to connect, 1 s unless given. */
  readonly retryMs?: number;
};

/** There is no connection to NATS, or it went while an answer was awaited: the request's outcome is unknown. */
export class NatsDisconnectedError extends Error {
  override readonly name = "NatsDisconnectedError";
}

/** One connection that comes back by itself, for ever. */
export type NatsLink = {
  readonly nats: NatsConnection;
  /** Whether the connection stands now. */
  connected(): boolean;
  /** Calls the listener once, when the connection that stands now goes; returns how to stop that. */
  onLost(listener: () => void): () => void;
  /**
   * Runs a request. The client never sends what it is asked while disconnected, not even later, it only times
   * out: so this rejects with NatsDisconnectedError at once, and as soon as the connection goes. An abort of the
   * signal rejects with its reason; what was sent stays sent.
   */
  exchange<T>(request: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Sends what is buffered if there is a server to send it to, then closes for good. */
  close(): Promise<void>;
};

const dialMs = 5_000;
const defaultRetryMs = 1_000;
const remindMs = 30_000;
const closeMs = 2_000;
/** A peer that is gone without a word is noticed after about three of these. */
const pingMs = 10_000;

/**
 * Connects to NATS, waiting for it however long that takes: each change and every 30 s of waiting is logged,
 * without credentials. Rejects only with the reason of the signal, which ends the waiting; the link is the
 * caller's to close.
 */
export async function connectNats(settings: NatsSettings, signal: AbortSignal): Promise<NatsLink> {
  const { clock, log, retryMs = defaultRetryMs } = settings;
  const servers = settings.url.split(",").map((server) => server.trim());
  const child = log.child({ server: servers.map(hostOf).join(",") });
  let said: { readonly text: string; readonly at: number } | undefined;
  for (;;) {
    try {
      return watched(await dial(settings, servers, signal), clock, child);
    } catch (error) {
      signal.throwIfAborted();
      const text = describeError(error);
      if (text !== said?.text || clock.now() - said.at >= remindMs) {
        child.warn({ error: text }, "nats is not reachable, waiting for it");
        said = { text, at: clock.now() };
      }
    }
    await clock.sleep(retryMs, signal);
  }
}

async function dial(
  settings: NatsSettings,
  servers: readonly string[],
  signal: AbortSignal,
): Promise<NatsConnection> {
  signal.throwIfAborted();
  const options: ConnectionOptions = {
    servers: [...servers],
    name: "gitea-dynamic-runner",
    timeout: dialMs,
    pingInterval: pingMs,
    maxPingOut: 2,
    maxReconnectAttempts: -1,
    reconnectTimeWait: settings.retryMs ?? defaultRetryMs,
    // A password that is being replaced must not end the connection for good.
    ignoreAuthErrorAbort: true,
  };
  if (settings.user !== undefined) options.user = settings.user;
  if (settings.password !== undefined) options.pass = settings.password;
  if (settings.caFile !== undefined) options.tls = { ca: await readFile(settings.caFile, "utf8") };
  const dialled = connect(options);
  try {
    return await abortable(dialled, signal);
  } catch (error) {
    void dialled.then(
      (late) => late.close(),
      () => undefined,
    );
    throw error;
  }
}

function watched(nats: NatsConnection, clock: Clock, log: Logger): NatsLink {
  let connected = true;
  let absence = new AbortController();
  const listeners = new Set<() => void>();
  const lost = () => {
    connected = false;
    const notified = [...listeners];
    listeners.clear();
    for (const listener of notified) listener();
  };
  const follow = ({ type, data, permissionContext }: Status) => {
    if (type === Events.Disconnect && connected) {
      lost();
      absence = new AbortController();
      log.warn({}, "nats connection lost, reconnecting");
      void remind(clock, log, absence.signal);
    } else if (type === Events.Reconnect) {
      connected = true;
      absence.abort();
      log.info({}, "nats connection is back");
    } else if (type === Events.Error) {
      log.error({ code: data, ...permissionContext }, "nats reports an error");
    }
  };
  // The client never ends this iteration, not even when it is closed.
  void (async () => {
    for await (const status of nats.status()) follow(status);
  })();
  let closing = false;
  const ending = (async () => {
    const error = await nats.closed();
    lost();
    absence.abort();
    if (!closing) log.error({ error: describeError(error ?? undefined) }, "nats connection closed for good");
  })();
  log.info({}, "nats connected");

  const onLost = (listener: () => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  return {
    nats,
    connected: () => connected,
    onLost,
    exchange: async (request, signal) => {
      signal.throwIfAborted();
      if (!connected) throw new NatsDisconnectedError("NATS is not connected");
      const gone = Promise.withResolvers<never>();
      const forget = onLost(() => gone.reject(new NatsDisconnectedError("the connection to NATS was lost")));
      try {
        return await abortable(Promise.race([request(), gone.promise]), signal);
      } finally {
        forget();
      }
    },
    close: async () => {
      closing = true;
      const stop = new AbortController();
      if (connected) {
        await Promise.race([nats.drain(), clock.sleep(closeMs, stop.signal)]).catch(() => undefined);
      }
      stop.abort();
      await nats.close();
      await ending;
    },
  };
}

async function remind(clock: Clock, log: Logger, signal: AbortSignal): Promise<void> {
  const since = clock.now();
  for (;;) {
    try {
      await clock.sleep(remindMs, signal);
    } catch {
      return;
    }
    const seconds = Math.round((clock.now() - since) / 1000);
    log.warn({ seconds }, "nats is still away, reconnecting");
  }
}

/** What may be logged of a server's address: it may hold a password. */
function hostOf(server: string): string {
  return server.replace(/^[a-z]+:\/\//, "").replace(/^.*@/, "");
}
