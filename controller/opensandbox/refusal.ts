import { z } from "zod";
import { asLine, hideParts } from "./hide-parts.ts";
import { OpenSandboxError, type OpenSandboxTrouble } from "./opensandbox-api.ts";

/** What was asked for, for messages. */
export type Asked = {
  /** `POST /sandboxes`; without the query. */
  readonly what: string;
  /** The `X-Request-ID` that it was sent with. */
  readonly requestId: string;
  readonly isCreate: boolean;
  /** What the server must not repeat to us: the key, and each value that was sent. */
  readonly hidden: readonly string[];
};

/** An answer that is no success. */
export type Refused = {
  readonly status: number;
  /** The body; empty if it could not be read. */
  readonly text: string;
  readonly retryAfterMs?: number | undefined;
};

/** Judges by the status first, and by the server's code where one status has several meanings. */
export function refusalOf(asked: Asked, { status, text, retryAfterMs }: Refused): OpenSandboxError {
  const { code, words } = readRefusal(text);
  const trouble = troubleOf(asked.isCreate, status, code);
  return new OpenSandboxError(
    trouble,
    say(asked, plain(words, asked.hidden) || "refused", [String(status), code]),
    retryAfterMs === undefined ? {} : { retryAfterMs },
  );
}

/** An outcome that is not known, in our own words. */
export function outageOf(asked: Asked, words: string, options?: ErrorOptions): OpenSandboxError {
  return new OpenSandboxError("outage", say(asked, words, []), options);
}

/** The server says that there is none of that id; a proxy's 404 says nothing. */
export function isGone({ status, text }: Refused, of: "SANDBOX" | "POOL"): boolean {
  return status === 404 && isCode(readRefusal(text).code, `${of}_NOT_FOUND`);
}

/** One line of what the server said, without what it must not repeat, and not for long. */
export function plain(words: string, hidden: readonly string[]): string {
  const line = asLine(words.slice(0, 2_000));
  const shown = hideParts(line, hidden);
  return shown.length > longestWords ? `${shown.slice(0, longestWords)}…` : shown;
}

const longestWords = 300;

/** As server 1.1.1 answers; a status from a proxy in front of it comes without a code. */
function troubleOf(isCreate: boolean, status: number, code: string): OpenSandboxTrouble {
  if (status === 401) return "unauthorized";
  if (isCreate) {
    if (status === 404 && isCode(code, "POOL_NOT_FOUND")) return "no_pool";
    // A proxy's 504 is another matter: the server goes on, and a VM may come.
    if (status === 429 || (status === 504 && isCode(code, "POD_READY_TIMEOUT"))) return "no_capacity";
    if (status === 500 && isCode(code, "POD_FAILED")) return "vm_failed";
  }
  if (status < 400 || status >= 500) return "outage";
  // Not now, or nobody that knows the API has answered.
  if (status === 408 || status === 425 || status === 429) return "outage";
  return (status === 404 || status === 405) && code === "" ? "outage" : "refused";
}

/** Its first part names the runtime, or what is wrong: `KUBERNETES::POOL_NOT_FOUND`. */
function isCode(code: string, name: string): boolean {
  return code === name || code.endsWith(`::${name}`);
}

const codeForm = /^[A-Z][A-Z0-9_:]{0,99}$/;

/** `input` and `ctx`, which repeat the request, are left. */
const mistakeSchema = z.object({
  type: z.string(),
  loc: z.array(z.union([z.string(), z.number()])),
  msg: z.string(),
});

const refusalSchema = z.object({
  code: z.string().regex(codeForm).optional().catch(undefined),
  message: z.string().optional().catch(undefined),
  detail: z
    .union([z.string(), z.array(mistakeSchema)])
    .optional()
    .catch(undefined),
});

function readRefusal(text: string): { readonly code: string; readonly words: string } {
  const read = refusalSchema.safeParse(jsonOf(text));
  if (!read.success) return { code: "", words: "" };
  const { code = "", message, detail = "" } = read.data;
  const mistakes =
    typeof detail === "string"
      ? detail
      : detail
          .slice(0, 3)
          .map(({ type, loc, msg }) => `${loc.join(".")}: ${msg} (${type})`)
          .join("; ");
  return { code, words: message ?? mistakes };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function say({ what, requestId }: Asked, words: string, facts: readonly string[]): string {
  const [status, code] = facts;
  const all = [[status, code].join(" ").trim(), `request ${requestId}`].filter((fact) => fact !== "");
  return `${what}: ${words} (${all.join(", ")})`;
}
