export type FakeRequest = {
  readonly method: string;
  /** Without `/v1`. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** As it came; empty if there was none. */
  readonly text: string;
};

export type FakeAnswer = {
  readonly status: number;
  /** Sent as JSON; text as it is; nothing at all if undefined. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
};

/** An answer that is no success, thrown. */
export class Refused extends Error {
  readonly answer: FakeAnswer;

  constructor(answer: FakeAnswer) {
    super(`refused with ${answer.status}`);
    this.answer = answer;
  }
}

/** There is no answer: the connection is cut. */
export class CutOff extends Error {}

/** The form of whatever a handler of the server refuses. */
export function coded(status: number, code: string, message: string, headers = {}): Refused {
  return new Refused({ status, body: { code, message }, headers });
}

export type Mistake = {
  readonly type: string;
  readonly loc: readonly (string | number)[];
  readonly msg: string;
};

/** The form of what does not get as far as a handler: it repeats what was sent. */
export function invalid(mistake: Mistake, input: unknown): Refused {
  return new Refused({ status: 422, body: { detail: [{ ...mistake, input, ctx: { given: input } }] } });
}

/** The server's own words for what its cluster refuses hold what was sent, too. */
export function apiError(sent: unknown): Refused {
  return coded(
    500,
    "KUBERNETES::API_ERROR",
    `Failed to create sandbox: (422)\nReason: Unprocessable Entity\nHTTP response body: ${JSON.stringify(sent)}`,
  );
}

export const noSandbox = (id: string) =>
  coded(404, "KUBERNETES::SANDBOX_NOT_FOUND", `Sandbox '${id}' not found`);

export const noPool = (name: string) => coded(404, "KUBERNETES::POOL_NOT_FOUND", `Pool '${name}' not found`);
