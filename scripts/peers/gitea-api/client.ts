import * as z from "zod";

/** Whom to ask, and as whom. */
export type GiteaApi = {
  /** Without a slash at the end. */
  readonly url: string;
  /** An access token. */
  readonly token: string;
};

export type GiteaRequest = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below `/api/v1`, with a leading slash. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
};

const answerDeadlineMs = 120_000;

/** Gitea answered, and the answer is no. Its text holds no token. */
export class GiteaRefusal extends Error {
  readonly status: number;
  /** Gitea's own words. */
  readonly answer: string;

  constructor(request: GiteaRequest, status: number, answer: string) {
    super(`${request.method} ${request.path}: ${status} ${answer}`);
    this.status = status;
    this.answer = answer;
  }
}

/** Asks Gitea's REST API and parses the answer. Rejects with a GiteaRefusal when it says no. */
export async function askGitea<T>(
  api: GiteaApi,
  request: GiteaRequest,
  schema: z.ZodType<T>,
  signal: AbortSignal,
): Promise<T> {
  return schema.parse(JSON.parse(await askGiteaForText(api, request, signal)));
}

/** The same for answers that are no JSON, or none at all. */
export async function askGiteaForText(
  api: GiteaApi,
  request: GiteaRequest,
  signal: AbortSignal,
): Promise<string> {
  const response = await fetch(`${api.url}/api/v1${request.path}`, {
    method: request.method,
    headers: { authorization: `token ${api.token}`, "content-type": "application/json" },
    body: request.body === undefined ? null : JSON.stringify(request.body),
    signal: AbortSignal.any([signal, AbortSignal.timeout(answerDeadlineMs)]),
  });
  const text = await response.text();
  if (response.ok) return text;
  throw new GiteaRefusal(request, response.status, text.slice(0, 500));
}
