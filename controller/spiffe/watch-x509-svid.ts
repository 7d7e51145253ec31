import type { SpiffeId } from "../identity/spiffe-id.ts";
import type { Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { WorkloadClient } from "./workload-client.ts";
import { isFinal, nextRetryMs } from "./workload-retry.ts";
import { readX509Svid, type X509Svid } from "./x509-svid.ts";

export type WatchOptions = {
  readonly client: Pick<WorkloadClient, "watchX509Svids">;
  readonly expectedId: SpiffeId;
  readonly clock: Clock;
  readonly random: Random;
  readonly onSvid: (svid: X509Svid) => void;
  /** What went wrong, on one line; the watch goes on. */
  readonly onProblem: (problem: string) => void;
  /** Whether there is a good SVID at this moment. */
  readonly hasSvid: () => boolean;
};

/**
 * Follows the Workload API and reports each good SVID with the expected ID. Opens the stream anew whenever it ends,
 * until the signal is aborted; rejects with its reason then, or with the ConnectError that another try cannot cure.
 */
export async function watchX509Svid(options: WatchOptions, signal: AbortSignal): Promise<never> {
  for (;;) {
    try {
      await followStream(options, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (isFinal(error)) throw error;
      options.onProblem(describeError(error));
    }
    await options.clock.sleep(nextRetryMs(options.random), signal);
  }
}

/**
 * Reads one stream. A bad message is skipped while a good SVID is there. Without one the stream is given up: the
 * agent judges the caller once, when a stream is opened, so one that was opened too early stays without our SVID.
 */
async function followStream(options: WatchOptions, signal: AbortSignal): Promise<void> {
  const { client, expectedId, clock, onSvid, onProblem, hasSvid } = options;
  const stream = new AbortController();
  try {
    for await (const message of client.watchX509Svids(AbortSignal.any([signal, stream.signal]))) {
      const verdict = readX509Svid(message, expectedId, clock.now());
      if (verdict.ok) onSvid(verdict.svid);
      else onProblem(verdict.reason);
      if (!verdict.ok && !hasSvid()) return;
    }
    onProblem("the Workload API ended the stream");
  } finally {
    stream.abort();
  }
}
