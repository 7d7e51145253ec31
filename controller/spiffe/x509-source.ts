import type { SpiffeId } from "../identity/spiffe-id.ts";
import type { Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { abortable } from "../platform/signal.ts";
import { watchX509Svid } from "./watch-x509-svid.ts";
import type { WorkloadClient } from "./workload-client.ts";
import type { X509Svid } from "./x509-svid.ts";

/** There is no valid SVID. It may come later; the message tells the ID, the endpoint and the last problem. */
export class SvidUnavailableError extends Error {
  override readonly name = "SvidUnavailableError";
}

/** What servers and clients need of the source. */
export type SvidSource = {
  /** The SVID of this moment, never changed in place; throws SvidUnavailableError when it has expired. */
  current(): X509Svid;
  /** Calls the listener with each later SVID that differs from the one before; returns how to stop that. */
  onUpdate(listener: (svid: X509Svid) => void): () => void;
};

/** Our own X.509-SVID, kept fresh until it is closed; the last one stays readable after that. */
export type X509Source = SvidSource & AsyncDisposable & { close(): Promise<void> };

export type X509SourceOptions = {
  readonly client: Pick<WorkloadClient, "watchX509Svids" | "endpoint">;
  /** The one ID that is taken; a workload may be given several. */
  readonly expectedId: SpiffeId;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** How long to wait for the first SVID; agents may be silent for a minute when an entry is new. */
  readonly readyTimeoutMs: number;
};

/**
 * Waits for the first SVID and then keeps it fresh. The signal gives up the waiting only. Rejects with its reason,
 * with SvidUnavailableError at the deadline, or with the ConnectError of a Workload API that refuses our calls as
 * wrong (trying again does not help then). A denial or a bad message later on leaves the last good SVID in place
 * until it expires.
 */
export async function openX509Source(options: X509SourceOptions, signal: AbortSignal): Promise<X509Source> {
  signal.throwIfAborted();
  const state = createState(options);
  const life = new AbortController();
  const watch = watchX509Svid({ ...options, ...state }, life.signal);
  const ended = watch.catch((error: unknown) => {
    if (!life.signal.aborted) state.onEnd(error);
  });
  const close = async () => {
    life.abort();
    await ended;
  };
  const waiting = new AbortController();
  const deadline = options.clock.sleep(options.readyTimeoutMs, waiting.signal).then(() => {
    throw state.unavailable(`none came within ${options.readyTimeoutMs / 1000} s`);
  });
  try {
    await abortable(Promise.race([state.ready, watch, deadline]), signal);
  } catch (error) {
    await close();
    throw error;
  } finally {
    waiting.abort();
    deadline.catch(() => {});
  }
  return { current: state.current, onUpdate: state.onUpdate, close, [Symbol.asyncDispose]: close };
}

/** What is known, and who wants to know. */
function createState({ client, expectedId, clock, log }: X509SourceOptions) {
  const listeners = new Set<(svid: X509Svid) => void>();
  const { promise: ready, resolve: becomeReady } = Promise.withResolvers<void>();
  let svid: X509Svid | undefined;
  let problem: string | undefined;
  const hasSvid = () => svid !== undefined && clock.now() < svid.notAfter;
  const unavailable = (what: string) =>
    new SvidUnavailableError(
      `no X.509-SVID for ${expectedId} from ${client.endpoint}: ${what}; ` +
        (problem === undefined ? "the Workload API has not answered" : `last problem: ${problem}`),
    );
  const tell = (listener: (svid: X509Svid) => void, next: X509Svid) => {
    try {
      listener(next);
    } catch (error) {
      log.error({ error: describeError(error) }, "listener of the x509-svid failed");
    }
  };
  return {
    ready,
    hasSvid,
    unavailable,
    current: () => {
      if (svid === undefined || !hasSvid()) {
        throw unavailable(svid === undefined ? "none came" : `it expired at ${isoTime(svid.notAfter)}`);
      }
      return svid;
    },
    onUpdate: (listener: (svid: X509Svid) => void) => {
      // A wrapper, so that a function that is given twice is two listeners.
      const own = (next: X509Svid) => listener(next);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
    onSvid: (next: X509Svid) => {
      problem = undefined;
      const same = svid !== undefined && JSON.stringify(svid) === JSON.stringify(next);
      svid = next;
      becomeReady();
      if (same) return;
      log.info({ spiffeId: next.id, notAfter: isoTime(next.notAfter) }, "x509-svid received");
      for (const listener of listeners) tell(listener, next);
    },
    onProblem: (next: string) => {
      // Told once, not at each of the tries that follow.
      if (next !== problem) log.warn({ spiffeId: expectedId, problem: next }, "no new x509-svid");
      problem = next;
    },
    onEnd: (error: unknown) => {
      problem = describeError(error);
      // Whoever opens the source gets the error itself.
      if (svid === undefined) return;
      log.error(
        { spiffeId: expectedId, problem },
        "workload api refuses our calls, the x509-svid will expire",
      );
    },
  };
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
