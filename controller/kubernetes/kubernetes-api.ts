/** One call to the API server. */
export type ApiCall = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** `/api/v1/namespaces/x/pods/y`; what is not of our own making is escaped with `encodeURIComponent`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Of the body: `application/json` if not given, `application/merge-patch+json` and so on for a patch. */
  readonly contentType?: string;
};

/** https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes */
export type WatchEvent = {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  /** As the server gave it; of a DELETED one the last state. */
  readonly object: unknown;
};

/**
 * The API server of a cluster. Nothing is tried again in here, but for one new token after a 401; the caller knows
 * whether the same call may be made twice. Both reject with the signal's reason once that is aborted, and the request
 * is ended.
 */
export type KubernetesApi = {
  /**
   * One call with a deadline of its own; its answer is the parsed body. Rejects with ApiRefusal if the server
   * refused, and with ApiOutage if there is no usable answer: then what was asked for may have been done.
   */
  call(call: ApiCall, signal: AbortSignal): Promise<unknown>;
  /**
   * Events until the server ends the watch, which is no error. Rejects as `call` does; an ERROR event is an
   * ApiRefusal (410 Expired: list again). `watch=true` is added to the query. Without `timeoutSeconds` in the query
   * a connection whose other end is gone is never noticed; with it the watch is an outage a while after that.
   */
  watch(
    path: string,
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): AsyncIterable<WatchEvent>;
  /** Closes the connections. Calls that run end as outages, further ones are refused as such. */
  close(): void;
};

export type Refusal = {
  /** The HTTP status. */
  readonly status: number;
  /** `Status.reason`, such as NotFound, AlreadyExists, Conflict, Forbidden, Expired; "" if it gave none. */
  readonly reason: string;
  /** Of the `Retry-After` header. */
  readonly retryAfterMs?: number;
  /** The answer's body if that was JSON, a `Status` in general; undefined otherwise. */
  readonly body?: unknown;
};

/** The API server refused. Whether the same call may go through later is for the caller to tell, by the reason. */
export class ApiRefusal extends Error {
  override readonly name = "ApiRefusal";
  readonly status: number;
  readonly reason: string;
  readonly retryAfterMs: number | undefined;
  readonly body: unknown;

  constructor(message: string, { status, reason, retryAfterMs, body }: Refusal) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
    this.body = body;
  }
}

/** No answer, or none that can be used: the outcome is not known. The same call may go through later. */
export class ApiOutage extends Error {
  override readonly name = "ApiOutage";
}

/** Whether the API refused for this reason, as in `isRefusal(error, "NotFound")`. */
export function isRefusal(error: unknown, reason: string): error is ApiRefusal {
  return error instanceof ApiRefusal && error.reason === reason;
}
