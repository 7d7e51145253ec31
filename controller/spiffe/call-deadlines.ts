import { constants, type ServerHttp2Stream } from "node:http2";
import type { Clock } from "../platform/clock.ts";

export type CallDeadlines = {
  /** From a call's headers to the end of its body. */
  readonly bodyMs: number;
  /** From a call's headers until its answer has been taken. */
  readonly callMs: number;
};

/** Ends a call whose body or whose reader is too slow: either would keep its bytes in our memory. */
export async function limitCall(
  stream: ServerHttp2Stream,
  { bodyMs, callMs }: CallDeadlines,
  clock: Clock,
  onSlow: (what: string) => void,
): Promise<void> {
  const closed = new AbortController();
  const body = new AbortController();
  stream.once("end", () => body.abort());
  stream.once("close", () => {
    body.abort();
    closed.abort();
  });
  const end = (what: string) => {
    onSlow(what);
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  };
  const late = async (ms: number, signal: AbortSignal) => {
    try {
      await clock.sleep(ms, signal);
      return true;
    } catch {
      return false;
    }
  };
  if (!stream.endAfterHeaders && (await late(bodyMs, body.signal))) return end("its body does not end");
  const rest = stream.endAfterHeaders ? callMs : callMs - bodyMs;
  if (await late(rest, closed.signal)) end("its answer is not taken");
}
