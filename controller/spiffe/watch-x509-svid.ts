import type { X509SVIDResponse } from "../../proto/gen/spiffe/workload_pb.ts";
import type { SpiffeId } from "../identity/spiffe-id.ts";
import type { Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { WorkloadClient } from "./workload-client.ts";
import { isFinal, nextRetryMs } from "./workload-retry.ts";
import { readX509Svid, type X509Svid, type X509SvidVerdict } from "./x509-svid.ts";

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

/** A clock that is behind may also be set right meanwhile. */
const judgeAgainMs = 1_000;

/**
 * Reads one stream. A bad message is skipped while a good SVID is there. Without one the stream is given up: the
 * agent judges the caller once, when a stream is opened, so one that was opened too early stays without our SVID. An
 * SVID that is not valid yet is no such case: it is judged again until it is, or until the next message comes.
 */
async function followStream(options: WatchOptions, signal: AbortSignal): Promise<void> {
  const { client, expectedId, clock, onSvid, onProblem, hasSvid } = options;
  const stream = new AbortController();
  const over = AbortSignal.any([signal, stream.signal]);
  const judge = (message: X509SVIDResponse): X509SvidVerdict => {
    const verdict = readX509Svid(message, expectedId, clock.now());
    if (verdict.ok) onSvid(verdict.svid);
    else onProblem(verdict.reason);
    return verdict;
  };
  try {
    const messages = client.watchX509Svids(over)[Symbol.asyncIterator]();
    let next = messages.next();
    for (;;) {
      const { value: message, done } = await next;
      if (done === true) break;
      next = messages.next();
      // Nobody waits for it any more if the stream is given up.
      next.catch(() => undefined);
      let verdict = judge(message);
      while (isEarly(verdict) && !(await comesWithin(next, judgeAgainMs, clock, over)))
        verdict = judge(message);
      if (!verdict.ok && !isEarly(verdict) && !hasSvid()) return;
    }
    onProblem("the Workload API ended the stream");
  } finally {
    stream.abort();
  }
}

function isEarly(verdict: X509SvidVerdict): boolean {
  return !verdict.ok && verdict.early;
}

/** Whether it settles within the time, either way. Rejects with the signal's reason. */
async function comesWithin(
  coming: Promise<unknown>,
  ms: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  const over = new AbortController();
  const late = clock.sleep(ms, AbortSignal.any([signal, over.signal])).then(() => false);
  // It rejects when the race is over.
  late.catch(() => undefined);
  try {
    const come = coming.then(
      () => true,
      () => true,
    );
    return await Promise.race([come, late]);
  } finally {
    over.abort();
  }
}
