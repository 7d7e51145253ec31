import {
  type ApiCall,
  ApiOutage,
  ApiRefusal,
  type KubernetesApi,
  type WatchEvent,
} from "../../../controller/kubernetes/kubernetes-api.ts";
import { refusalInEvent, refusalOf } from "../../../controller/kubernetes/refusal.ts";
import type { Clock } from "../../../controller/platform/clock.ts";
import { withDeadline } from "../../../controller/platform/signal.ts";
import { Refused } from "./refused.ts";
import type { FakeAnswer, FakeRequest } from "./request.ts";
import type { FakeWatch } from "./watch.ts";

type Handle = (request: FakeRequest, signal: AbortSignal) => Promise<FakeAnswer | FakeWatch>;

/** As long as the real client's. */
const callMs = 20_000;

/** The API without a network between: each promise settles by itself, deadlines are the clock's. */
export function inMemoryApi(handle: Handle, clock: Clock): KubernetesApi {
  const closed = new AbortController();
  const ask = async (call: ApiCall, signal: AbortSignal) => {
    const either = AbortSignal.any([signal, closed.signal]);
    const request = { ...call, query: call.query ?? {}, body: copyOf(call.body) };
    return await withDeadline(clock, callMs, (deadline) => handle(request, deadline), either);
  };
  const translated = (what: string, error: unknown, signal: AbortSignal): unknown => {
    if (signal.aborted) return signal.reason;
    if (error instanceof ApiRefusal || error instanceof ApiOutage) return error;
    if (error instanceof Refused) {
      const headers = Object.entries(error.headers).map(([name, value]) => [name.toLowerCase(), value]);
      return refusalOf(
        what,
        error.status,
        Object.fromEntries(headers) as Record<string, string>,
        JSON.stringify(error.body),
      );
    }
    return new ApiOutage(`${what}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  };
  return {
    call: async (call, signal) => {
      const what = `${call.method} ${call.path}`;
      try {
        const answer = await ask(call, signal);
        if ("lines" in answer) throw new Error("it is a watch");
        return copyOf(answer.body);
      } catch (error) {
        throw translated(what, error, signal);
      }
    },
    watch: async function* (path, query, signal) {
      const what = `WATCH ${path}`;
      let watch: FakeWatch | undefined;
      try {
        const answer = await ask({ method: "GET", path, query: { ...query, watch: "true" } }, signal);
        if (!("lines" in answer)) throw new Error("it is no watch");
        watch = answer;
        const iterator = watch.lines[Symbol.asyncIterator]();
        const aborted = Promise.withResolvers<never>();
        aborted.promise.catch(() => undefined);
        const either = AbortSignal.any([signal, closed.signal]);
        const abort = () => aborted.reject(either.reason);
        if (either.aborted) abort();
        either.addEventListener("abort", abort, { once: true });
        for (;;) {
          const { value, done } = await Promise.race([iterator.next(), aborted.promise]);
          if (done === true) return;
          if (value.type === "ERROR") throw refusalInEvent(what, value.object);
          yield copyOf(value) as WatchEvent;
        }
      } catch (error) {
        throw translated(what, error, signal);
      } finally {
        watch?.close();
      }
    },
    close: () => {
      closed.abort(new ApiOutage("the client is closed"));
    },
  };
}

function copyOf(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
