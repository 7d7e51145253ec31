import {
  Agent as HttpAgent,
  type ClientRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as httpRequest,
  type RequestListener,
  type RequestOptions,
  type ServerResponse,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { pipeline } from "node:stream/promises";
import type { SecureContext } from "node:tls";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { requestHeaders, responseHeaders, trailersOf } from "./proxy-headers.ts";
import { targetOf } from "./proxy-target.ts";

export type ProxyOptions = {
  /** The task's own Gitea; undefined when the task names none. */
  readonly server: URL | undefined;
  /** Which authorities are trusted for https. */
  readonly secureContext: SecureContext;
  readonly log: Logger;
};

/** Nothing moves either way for so long: whoever asked would wait for ever. */
const idleMs = 600_000;

/**
 * Streams what a job sends to the loopback address (git, API, artifacts) to the task's own Gitea and back:
 * method, headers, bodies, status and trailers as they came. Nothing is kept in memory, a slow reader slows
 * the sender. When Gitea does not answer the job gets a 502.
 */
export function createLoopbackProxy({ server, secureContext, log }: ProxyOptions): RequestListener {
  if (server === undefined)
    return (request, response) => say(request, response, 502, "the task names no server_url");
  const secure = server.protocol === "https:";
  // A connection for each request: one that is kept may be closed by the server just when a request that
  // cannot be repeated goes out on it.
  const agent = secure ? new HttpsAgent({ keepAlive: false }) : new HttpAgent({ keepAlive: false });
  const options: RequestOptions & { secureContext?: SecureContext } = {
    agent,
    protocol: server.protocol,
    host: server.hostname.replace(/^\[|\]$/g, ""),
    port: server.port === "" ? (secure ? 443 : 80) : server.port,
    ...(secure ? { secureContext } : {}),
  };
  const send = secure ? httpsRequest : httpRequest;

  return (request, response) => {
    const target = targetOf(server, request.url ?? "");
    if (target.kind === "refuse") return say(request, response, target.status, target.reason);
    const headers = requestHeaders(request, server.host);
    const upstream = send({ ...options, method: request.method, path: target.path, headers });
    upstream.setTimeout(idleMs, () => upstream.destroy(new Error("nothing moved for too long")));
    const failed = (error: unknown) => {
      if (response.headersSent || response.destroyed) return;
      log.warn({ error: describeError(error) }, "gitea does not answer a job's request");
      say(request, response, 502, "Gitea does not answer");
    };
    upstream.once("response", (answer) => void passBack(answer, request, response, failed));
    // Nobody has asked for another protocol.
    upstream.once("upgrade", (_, socket) => {
      socket.destroy();
      failed(new Error("it switches to another protocol"));
    });
    upstream.on("error", failed);
    // Not a pipeline: that would end the job's connection where the job shall still get an answer, because
    // Gitea was gone or answered before it had all.
    request.pipe(upstream, { end: false });
    request.once("end", () => endWith(upstream, trailersOf(request)));
    // The job has gone or has been served: in both cases nothing more is wanted from Gitea.
    response.once("close", () => upstream.destroy());
  };
}

async function passBack(
  answer: IncomingMessage,
  request: IncomingMessage,
  response: ServerResponse,
  failed: (error: unknown) => void,
): Promise<void> {
  try {
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage ?? "", responseHeaders(answer));
  } catch (error) {
    // Node reads first lines that it does not write, and would try again with these words.
    response.statusMessage = "";
    answer.destroy();
    return failed(error);
  }
  response.flushHeaders();
  try {
    await pipeline(answer, response, { end: false });
    onceRead(request, () => endWith(response, trailersOf(answer)));
  } catch {
    // An answer that breaks off must not look complete.
    response.destroy();
  }
}

function endWith(message: ClientRequest | ServerResponse, trailers: OutgoingHttpHeaders): void {
  if (Object.keys(trailers).length > 0) message.addTrailers(trailers);
  message.end();
}

function say(request: IncomingMessage, response: ServerResponse, status: number, text: string): void {
  const body = `${text}\n`;
  response.writeHead(status, {
    "content-type": "text/plain; charset=utf-8",
    "content-length": Buffer.byteLength(body),
  });
  response.write(body);
  onceRead(request, () => response.end());
}

/**
 * Goes on once the request has been read to its end, wherever that goes. An answer that ends before may be
 * lost: the connection is closed with bytes unread, and the job's side is reset while it still sends.
 */
function onceRead(request: IncomingMessage, then: () => void): void {
  if (request.readableEnded) return then();
  request.once("end", then);
  request.unpipe().resume();
}
