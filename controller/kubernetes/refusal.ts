import type { IncomingHttpHeaders } from "node:http";
import { fieldOf } from "./document.ts";
import { ApiOutage, ApiRefusal } from "./kubernetes-api.ts";

/**
 * An answer that is no success. A refusal is one that says that nothing was done: 4xx, and 503 of a server that
 * cannot serve now. After any other (a timeout or a fault within, a proxy's complaint) the outcome is unknown.
 * `what` says what was asked for; `text` is the answer's body.
 */
export function refusalOf(
  what: string,
  status: number,
  headers: IncomingHttpHeaders,
  text: string,
): ApiRefusal | ApiOutage {
  return fromStatus(what, status, jsonOf(text), retryAfterMs(headers["retry-after"]));
}

/** The same of a `Status` that comes without headers, in the ERROR event of a watch. */
export function refusalInEvent(what: string, status: unknown): ApiRefusal | ApiOutage {
  const code = fieldOf(status, "code");
  return fromStatus(what, typeof code === "number" ? code : 500, status);
}

/** https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/ */
function fromStatus(what: string, status: number, body: unknown, retryMs?: number): ApiRefusal | ApiOutage {
  const [reason, message] = [textOf(body, "reason"), textOf(body, "message")];
  const words = `${what}: ${message === "" ? "refused" : message} (${[status, reason].join(" ").trim()})`;
  if ((status < 400 || status >= 500) && status !== 503) return new ApiOutage(words);
  const retry = retryMs === undefined ? {} : { retryAfterMs: retryMs };
  return new ApiRefusal(words, { status, reason, body, ...retry });
}

/** RFC 9110, section 10.2.3; API servers give seconds, never a date. */
function retryAfterMs(value: string | undefined): number | undefined {
  return value !== undefined && /^\d{1,5}$/.test(value) ? Number(value) * 1000 : undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function textOf(value: unknown, name: string): string {
  const text = fieldOf(value, name);
  return typeof text === "string" ? text : "";
}
