import { z } from "zod";
import type { Pool, Sandbox, SandboxState } from "./opensandbox-api.ts";
import { plain } from "./refusal.ts";

export type Page = { readonly sandboxes: readonly Sandbox[]; readonly hasNext: boolean };

/** What a sandbox or a pool is called, so that it can stand in a path and in no other place of it. */
export function isName(text: string): boolean {
  return nameForm.test(text);
}

const nameForm = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$/;

/** All three throw an Error that says where the answer is not as expected, and quotes no value of it. */
export function readSandbox(text: string, hidden: readonly string[]): Sandbox {
  return sandboxFrom(read(sandboxSchema, text), hidden);
}

export function readPage(text: string, hidden: readonly string[]): Page {
  const { items, pagination } = read(pageSchema, text);
  return { sandboxes: items.map((item) => sandboxFrom(item, hidden)), hasNext: pagination.hasNextPage };
}

export function readPool(text: string): Pool {
  const { name, status } = read(poolSchema, text);
  return status == null ? { name } : { name, places: status };
}

/**
 * Only what nobody can do without has to be there. `image` and `entrypoint` mean nothing for a sandbox of a pool, and
 * `lastTransitionAt` is when it was made.
 */
const sandboxSchema = z.object({
  id: z.string().regex(nameForm),
  status: z.object({
    state: z.string(),
    reason: z.string().nullish().catch(undefined),
    message: z.string().nullish().catch(undefined),
  }),
  metadata: z.record(z.string(), z.string()).nullish(),
  createdAt: z.string().nullish().catch(undefined),
  allocation: z.unknown().optional(),
});

const pageSchema = z.object({
  items: z.array(sandboxSchema),
  pagination: z.object({ hasNextPage: z.boolean() }),
});

const count = z.int().min(0);

const poolSchema = z.object({
  name: z.string().regex(nameForm),
  status: z.object({ total: count, allocated: count, available: count }).nullish(),
});

function read<T>(schema: z.ZodType<T>, text: string): T {
  const result = schema.safeParse(jsonOf(text));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new Error(`the answer is not as expected: ${issue?.path.join(".")} ${issue?.code}`);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message quotes the text.
    throw new Error("the answer is no JSON");
  }
}

function sandboxFrom(of: z.output<typeof sandboxSchema>, hidden: readonly string[]): Sandbox {
  const { state, reason, message } = of.status;
  const createdAt = timeOf(of.createdAt ?? "");
  const words = [[state, reason ?? ""].filter((word) => word !== "").join("/"), message ?? ""];
  return {
    id: of.id,
    state: stateOf(state),
    words: plain(words.filter((word) => word !== "").join(": "), hidden),
    isAllocated: typeof of.allocation === "object" && of.allocation !== null,
    metadata: of.metadata ?? {},
    ...(createdAt === undefined ? {} : { createdAt }),
  };
}

const states: readonly SandboxState[] = ["pending", "running", "allocated", "stopping", "failed"];

function stateOf(word: string): SandboxState {
  return states.find((state) => state === word.toLowerCase()) ?? "other";
}

/** A time that does not say of which zone it is cannot be read. */
function timeOf(text: string): number | undefined {
  const ms = /T.*(Z|[+-]\d{2}:?\d{2})$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}
