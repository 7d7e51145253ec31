import { coded, invalid } from "./answer.ts";
import { checkLabels, isReserved } from "./labels.ts";

export type CreateForm = {
  readonly pool: string;
  readonly timeout?: number;
  readonly entrypoint?: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly metadata: Readonly<Record<string, string>>;
  readonly extensions: Readonly<Record<string, string>>;
};

type Fields = Readonly<Record<string, unknown>>;

/** Throws what the server answers to what is no create of a pool's sandbox, in its order. */
export function readCreate(text: string, lifeSeconds: number): CreateForm {
  const body = fieldsOf(text);
  const { timeout, entrypoint, snapshotId, lifecycle } = body;
  const environment = textsOf(body, "env");
  const metadata = textsOf(body, "metadata");
  const extensions = textsOf(body, "extensions");
  if (timeout != null && (!Number.isInteger(timeout) || Number(timeout) < 60))
    throw wrong("timeout", "Input should be greater than or equal to 60", timeout);
  if (entrypoint != null && (!isTextArray(entrypoint) || entrypoint.length === 0))
    throw wrong("entrypoint", "List should have at least 1 item after validation", entrypoint);
  const pool = extensions["poolRef"]?.trim() ?? "";
  // The fake has no sandboxes but those of pools.
  if (pool === "") throw wrong(undefined, "Value error, image or snapshotId is required", body);
  if (snapshotId != null || lifecycle != null)
    throw wrong(undefined, "Value error, not supported together with poolRef", body);
  checkReserved(metadata, "SANDBOX::INVALID_METADATA_LABEL");
  checkLabels(metadata);
  if (typeof timeout === "number" && timeout > lifeSeconds)
    throw notSupported(`timeout ${timeout} exceeds the maximum of ${lifeSeconds}`);
  for (const name of ["networkPolicy", "credentialProxy", "platform", "volumes", "secureAccess"])
    if (body[name] != null) throw notSupported(`${name} is not supported with poolRef`);
  return {
    pool,
    ...(typeof timeout === "number" ? { timeout } : {}),
    ...(isTextArray(entrypoint) ? { entrypoint } : {}),
    environment,
    metadata,
    extensions,
  };
}

export type PatchForm = Readonly<Record<string, string | null>>;

export function readPatch(text: string, contentType: string): PatchForm {
  if (!/^application\/([a-z.-]+\+)?json\b/.test(contentType))
    throw wrong(undefined, "Input should be a valid dictionary", text);
  const patch: Record<string, string | null> = {};
  for (const [key, value] of Object.entries(fieldsOf(text))) {
    if (value !== null && typeof value !== "string")
      throw wrong(key, "Input should be a valid string", value);
    patch[key] = value;
  }
  checkReserved(patch, "INVALID_METADATA_LABEL");
  checkLabels(setIn(patch));
  return patch;
}

/** What a patch sets; the other keys it removes. */
export function setIn(patch: PatchForm): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(patch).flatMap(([key, value]) => (value === null ? [] : [[key, value]])),
  );
}

export type ListForm = {
  readonly filter: Readonly<Record<string, string>>;
  readonly states: readonly string[];
  readonly page: number;
  readonly pageSize: number;
};

export function readList(query: URLSearchParams): ListForm {
  const number = (name: string, usual: number, max: number) => {
    const text = query.getAll(name).at(-1);
    const value = text === undefined ? usual : Number(text);
    if (Number.isInteger(value) && value >= 1 && value <= max) return value;
    throw invalid({ type: "less_than_equal", loc: ["query", name], msg: "Input is out of range" }, text);
  };
  const [page, pageSize] = [number("page", 1, Number.MAX_SAFE_INTEGER), number("pageSize", 20, 200)];
  // One parameter that holds pairs, encoded once more; of several the last counts, and none at all is no filter.
  const pairs = query.getAll("metadata").at(-1) ?? "";
  if (pairs !== "" && pairs.split("&").some((pair) => !pair.includes("=")))
    throw coded(400, "INVALID_METADATA_FORMAT", `Invalid metadata filter: ${pairs}`);
  const filter = Object.fromEntries(new URLSearchParams(pairs));
  return { filter, states: query.getAll("state").map((state) => state.toLowerCase()), page, pageSize };
}

function fieldsOf(text: string): Fields {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw invalid({ type: "json_invalid", loc: ["body", 1], msg: "JSON decode error" }, text);
  }
  if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Fields;
  throw wrong(undefined, "Input should be a valid dictionary", body);
}

function textsOf(body: Fields, name: string): Readonly<Record<string, string>> {
  const texts = body[name] ?? {};
  if (typeof texts !== "object" || Array.isArray(texts))
    throw wrong(name, "Input should be a valid dictionary", texts);
  for (const [key, value] of Object.entries(texts))
    if (typeof value !== "string")
      throw invalid(
        { type: "string_type", loc: ["body", name, key], msg: "Input should be a valid string" },
        body,
      );
  return texts as Readonly<Record<string, string>>;
}

function checkReserved(metadata: object, code: string): void {
  const key = Object.keys(metadata).find(isReserved);
  if (key !== undefined)
    throw coded(400, code, `Metadata key '${key}' uses the reserved prefix 'opensandbox.io/'`);
}

function isTextArray(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((part) => typeof part === "string");
}

function wrong(field: string | undefined, msg: string, input: unknown) {
  return invalid({ type: "value_error", loc: field === undefined ? ["body"] : ["body", field], msg }, input);
}

function notSupported(message: string) {
  return coded(400, "SANDBOX::INVALID_PARAMETER", message);
}
