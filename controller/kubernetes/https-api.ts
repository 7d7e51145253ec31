import type { IncomingMessage } from "node:http";
import https from "node:https";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { readText } from "../platform/read-text.ts";
import { withDeadline } from "../platform/signal.ts";
import { type Cluster, createCredentials, type Credential } from "./cluster.ts";
import { type ApiCall, ApiOutage, ApiRefusal, type KubernetesApi } from "./kubernetes-api.ts";
import { readEvents } from "./read-answer.ts";
import { refusalOf } from "./refusal.ts";

export type HttpsApiTimes = {
  /** From a call to the end of its answer; of a watch until its answer begins. */
  readonly callMs: number;
  /** How much longer than its `timeoutSeconds` a watch may last. */
  readonly watchGraceMs: number;
  /** An unused connection is closed after this, before a load balancer or the server closes it. */
  readonly idleConnectionMs: number;
};

export const defaultHttpsApiTimes: HttpsApiTimes = {
  callMs: 20_000,
  watchGraceMs: 30_000,
  idleConnectionMs: 30_000,
};

export type HttpsApiLimits = { readonly answerBytes: number; readonly eventBytes: number };

/** etcd takes 1.5 MB for an object; a page of a list has a few hundred. */
export const defaultHttpsApiLimits: HttpsApiLimits = {
  answerBytes: 64 * 1024 * 1024,
  eventBytes: 8 * 1024 * 1024,
};

export type HttpsApiOptions = {
  readonly cluster: Cluster;
  readonly clock: Clock;
  readonly times?: HttpsApiTimes;
  readonly limits?: HttpsApiLimits;
};

/**
 * The API of a cluster over HTTP/1.1 and TLS, with connections that are kept; each watch has one of its own. It
 * dials when it has to, so it outlives every outage. The server's certificate is verified, whatever the environment
 * says.
 */
export function createHttpsApi(options: HttpsApiOptions): KubernetesApi {
  const { cluster, clock, times = defaultHttpsApiTimes, limits = defaultHttpsApiLimits } = options;
  const credentials = createCredentials(cluster, clock);
  const agent = new https.Agent({ keepAlive: true, timeout: times.idleConnectionMs });
  const closed = new AbortController();

  /** The beginning of an answer that is a success. */
  const open = async (call: ApiCall, signal: AbortSignal): Promise<IncomingMessage> => {
    for (let tries = 1; ; tries++) {
      const credential = await credentials.current(signal);
      const answer = await send(cluster.server, agent, call, credential, signal);
      const { statusCode: status = 0, headers } = answer;
      if (status >= 200 && status < 300) return answer;
      const text = await readText(answer, limits.answerBytes);
      // It was not even looked at, so that any call may be made again with another token.
      if (status === 401) credentials.refused(credential);
      if (status !== 401 || tries > 1) throw refusalOf(nameOf(call), status, headers, hide(text, credential));
    }
  };

  /** Each error as the contract has it. */
  const translated = (call: ApiCall, error: unknown, signal: AbortSignal): unknown => {
    if (signal.aborted) return signal.reason;
    if (error instanceof ApiRefusal || error instanceof ApiOutage) return error;
    if (closed.signal.aborted) return new ApiOutage(`${nameOf(call)}: the client is closed`);
    return new ApiOutage(`${nameOf(call)}: ${wordsOf(error)}`, { cause: error });
  };

  const whole = async (call: ApiCall, signal: AbortSignal) => {
    const text = await readText(await open(call, signal), limits.answerBytes);
    try {
      const answer: unknown = JSON.parse(text);
      return answer;
    } catch {
      // The parser's message quotes the text.
      throw new Error("the answer is no JSON");
    }
  };

  return {
    call: async (call, signal) => {
      signal.throwIfAborted();
      const either = AbortSignal.any([signal, closed.signal]);
      try {
        return await withDeadline(clock, times.callMs, (deadline) => whole(call, deadline), either);
      } catch (error) {
        throw translated(call, error, signal);
      }
    },
    watch: async function* (path, query, signal) {
      signal.throwIfAborted();
      const call: ApiCall = { method: "GET", path, query: { ...query, watch: "true" } };
      const over = new AbortController();
      const either = AbortSignal.any([signal, closed.signal, over.signal]);
      try {
        const answer = await withDeadline(
          clock,
          times.callMs,
          // The deadline's own signal is over with it, and the answer goes on.
          async (deadline) => {
            const end = () => over.abort(deadline.reason);
            deadline.addEventListener("abort", end, { once: true });
            try {
              return await open(call, either);
            } finally {
              deadline.removeEventListener("abort", end);
            }
          },
          either,
        );
        const seconds = Number(query["timeoutSeconds"]);
        if (seconds > 0) endAfter(clock, seconds * 1000 + times.watchGraceMs, over);
        yield* readEvents(answer, nameOf(call), limits.eventBytes);
      } catch (error) {
        throw translated(call, over.signal.aborted ? over.signal.reason : error, signal);
      } finally {
        over.abort(new Error("the watch is over"));
      }
    },
    close: () => {
      closed.abort(new Error("the client is closed"));
      agent.destroy();
    },
  };
}

function send(
  server: URL,
  agent: https.Agent,
  { method, path, query, body, contentType = "application/json" }: ApiCall,
  { headers, ...tls }: Credential,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const search = query === undefined ? "" : `?${new URLSearchParams(query).toString()}`;
  const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  return new Promise((resolve, reject) => {
    const request = https.request({
      agent,
      signal,
      method,
      host: server.hostname.replace(/^\[(.*)\]$/, "$1"),
      port: server.port === "" ? 443 : server.port,
      path: `${server.pathname.replace(/\/$/, "")}${path}${search}`,
      headers: {
        ...headers,
        Accept: "application/json",
        "User-Agent": "gitea-dynamic-runner",
        ...(bytes === undefined ? {} : { "Content-Type": contentType, "Content-Length": bytes.length }),
      },
      ...tls,
      rejectUnauthorized: true,
    });
    request.once("response", resolve);
    // Also what comes after the answer has begun, which its reader hears of.
    request.on("error", reject);
    request.end(bytes);
  });
}

function endAfter(clock: Clock, ms: number, over: AbortController): void {
  const end = () => over.abort(new Error(`it has not ended within ${ms / 1000} s`));
  // Rejects when the watch has ended first.
  clock.sleep(ms, over.signal).then(end, () => undefined);
}

/** For messages. The query is left out. */
function nameOf({ method, path, query }: ApiCall): string {
  return `${query?.["watch"] === "true" ? "WATCH" : method} ${path}`;
}

/** Whatever a proxy or a webhook makes of a request, its token is not told further. */
function hide(text: string, { headers }: Credential): string {
  const secret = headers["Authorization"]?.replace(/^\w+ /, "") ?? "";
  return secret === "" ? text : text.replaceAll(secret, "[redacted]");
}

/** Of several addresses that were tried, what the first one said. */
function wordsOf(error: unknown): string {
  const one: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return describeError(one);
}
