import type { IncomingHttpHeaders } from "node:http";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { readText } from "../platform/read-text.ts";
import { withDeadline } from "../platform/signal.ts";
import { OpenSandboxError } from "./opensandbox-api.ts";
import { type Asked, outageOf, type Refused } from "./refusal.ts";
import { type Call, createConnections } from "./send.ts";

export type HttpApiTimes = {
  /** From a create to the end of its answer: longer than the server waits for a VM. */
  readonly createMs: number;
  /** The same of each other request. */
  readonly callMs: number;
  /** For all pages of a list. */
  readonly listMs: number;
  /** An unused connection is closed after this, before the server does so, which is after 5 s in general. */
  readonly idleConnectionMs: number;
};

export const defaultHttpApiTimes: HttpApiTimes = {
  createMs: 180_000,
  callMs: 20_000,
  listMs: 60_000,
  idleConnectionMs: 3_000,
};

export type HttpApiOptions = {
  /** Of the server, with `/v1` at the end or without. */
  readonly url: URL;
  /** The key of now: asked for each request, for it may be replaced while we run. */
  readonly key: (signal: AbortSignal) => Promise<string>;
  /** A new `X-Request-ID` each time, by which the server's log tells of the request. */
  readonly requestId: () => string;
  readonly clock: Clock;
  /** What signs the server's certificate, PEM, where that is none of the authorities that Node knows. */
  readonly ca?: string;
  readonly times?: HttpApiTimes;
  /** A page of a list has some megabytes at the most. */
  readonly answerBytes?: number;
};

/** What was asked for, and the answer, which may be a refusal. */
export type Answer = Asked & Refused;

export type Asking = {
  /**
   * One request, made once, with its own deadline; `sent` are the values in it that no error may repeat. Rejects with
   * OpenSandboxError if there is no answer, and with the signal's reason once that is aborted.
   */
  readonly ask: (call: Call, signal: AbortSignal, sent?: readonly string[]) => Promise<Answer>;
  readonly close: () => void;
};

export function createAsking(options: HttpApiOptions): Asking {
  const { clock, times = defaultHttpApiTimes, answerBytes = 32 * 1024 * 1024 } = options;
  const connections = createConnections(options.url, times.idleConnectionMs, options.ca);
  const closed = new AbortController();

  const keyFor = async (asked: Asked, signal: AbortSignal): Promise<string> => {
    try {
      const key = await options.key(signal);
      if (/^[\x21-\x7e]+$/.test(key)) return key;
    } catch (cause) {
      signal.throwIfAborted();
      throw new OpenSandboxError("unauthorized", `${asked.what}: the key cannot be read`, { cause });
    }
    throw new OpenSandboxError("unauthorized", `${asked.what}: the key is empty, or no key`);
  };

  const ask: Asking["ask"] = async (call, signal, sent = []) => {
    signal.throwIfAborted();
    const isCreate = call.method === "POST";
    const asked: Asked = {
      what: `${call.method} ${call.path}`,
      requestId: options.requestId(),
      isCreate,
      hidden: sent,
    };
    const once = async (deadline: AbortSignal): Promise<Answer> => {
      const key = await keyFor(asked, deadline);
      const headers = { "OPEN-SANDBOX-API-KEY": key, "X-Request-ID": asked.requestId };
      const answer = await connections.send(call, headers, deadline);
      const status = answer.statusCode ?? 0;
      const isSuccess = status >= 200 && status < 300;
      const text = await readText(answer, answerBytes).catch((error: unknown) => {
        deadline.throwIfAborted();
        if (isSuccess) throw error;
        // Its status says enough.
        return "";
      });
      const about = { ...asked, hidden: [...sent, key], status, text };
      return { ...about, retryAfterMs: retryAfterMs(answer.headers) };
    };
    const either = AbortSignal.any([signal, closed.signal]);
    try {
      return await withDeadline(clock, isCreate ? times.createMs : times.callMs, once, either);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof OpenSandboxError) throw error;
      if (closed.signal.aborted) throw outageOf(asked, "the client is closed");
      throw outageOf(asked, wordsOf(error), { cause: error });
    }
  };

  return {
    ask,
    close: () => {
      closed.abort(new Error("the client is closed"));
      connections.close();
    },
  };
}

/** RFC 9110, section 10.2.3; the server gives seconds, never a date. */
function retryAfterMs(headers: IncomingHttpHeaders): number | undefined {
  const value = headers["retry-after"];
  return value !== undefined && /^\d{1,5}$/.test(value) ? Number(value) * 1000 : undefined;
}

/** Of several addresses that were tried, what the first one said. */
export function wordsOf(error: unknown): string {
  const one: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return describeError(one);
}
