import { z } from "zod";
import { BackendError } from "../backend.ts";
import { askSpireServer, type SpireServer } from "./spire-command.ts";

/** A registration entry of SPIRE: whoever has all of the selectors, and runs below the parent, gets the ID. */
export type SpireEntry = {
  readonly id: string;
  readonly spiffeId: string;
  readonly parentId: string;
  /** As in `unix:uid:60600`. */
  readonly selectors: readonly string[];
};

export type NewSpireEntry = SpireEntry & {
  /** The server's default unless given. */
  readonly x509TtlSeconds?: number;
};

export type CreateOutcome =
  | { readonly kind: "created" }
  /** One with the same SPIFFE ID, parent and selectors is there already, under this id. */
  | { readonly kind: "exists"; readonly id: string }
  /** The id is another entry's. */
  | { readonly kind: "id-taken"; readonly by: SpireEntry };

/** The entries of a SPIRE server. All calls reject with BackendError. */
export type SpireEntries = {
  create(entry: NewSpireEntry, signal: AbortSignal): Promise<CreateOutcome>;
  /** An entry that is gone is no error. */
  remove(id: string, signal: AbortSignal): Promise<void>;
  /** Those below one parent. */
  below(parentId: string, signal: AbortSignal): Promise<readonly SpireEntry[]>;
};

// https://github.com/grpc/grpc/blob/master/doc/statuscodes.md
const ok = 0;
const invalidArgument = 3;
const notFound = 5;
const alreadyExists = 6;

const status = z.object({ code: z.number(), message: z.string() });
const id = z.object({ trust_domain: z.string(), path: z.string() });
const entryForm = z.object({
  id: z.string(),
  spiffe_id: id,
  parent_id: id,
  selectors: z.array(z.object({ type: z.string(), value: z.string() })),
});
const listed = z.object({ entries: z.array(entryForm) });
const changed = z.object({ results: z.tuple([z.object({ status })]) });

export function createSpireEntries(server: SpireServer): SpireEntries {
  const ask = async <T>(schema: z.ZodType<T>, command: readonly string[], signal: AbortSignal) => {
    const read = schema.safeParse(await askSpireServer(server, command, signal));
    if (read.success) return read.data;
    const what = `spire-server ${command.slice(0, 2).join(" ")}`;
    throw new BackendError("retryable", `${what} answered in another form`, { cause: read.error });
  };
  const below: SpireEntries["below"] = async (parentId, signal) => {
    const { entries } = await ask(listed, ["entry", "show", "-parentID", parentId], signal);
    return entries.map((found) => ({
      id: found.id,
      spiffeId: idText(found.spiffe_id),
      parentId: idText(found.parent_id),
      selectors: found.selectors.map(({ type, value }) => `${type}:${value}`),
    }));
  };
  return {
    create: async (wanted, signal) => {
      const { x509TtlSeconds: ttl } = wanted;
      const command = ["entry", "create", "-entryID", wanted.id, "-spiffeID", wanted.spiffeId];
      command.push(
        "-parentID",
        wanted.parentId,
        ...wanted.selectors.flatMap((selector) => ["-selector", selector]),
      );
      if (ttl !== undefined) command.push("-x509SVIDTTL", String(ttl));
      // The exit code is 0 whatever became of the entry.
      const [result] = (await ask(changed, command, signal)).results;
      switch (result.status.code) {
        case ok:
          return { kind: "created" };
        case alreadyExists: {
          // The program shows the entry that was asked for in place of the one that exists.
          const there = await below(wanted.parentId, signal);
          const similar = there.find((other) => isSimilar(other, wanted));
          if (similar !== undefined) return { kind: "exists", id: similar.id };
          const by = there.find((other) => other.id === wanted.id);
          if (by !== undefined) return { kind: "id-taken", by };
          throw refusal(`registering ${wanted.spiffeId}`, result.status);
        }
        default:
          throw refusal(`registering ${wanted.spiffeId}`, result.status);
      }
    },
    remove: async (entryId, signal) => {
      const [result] = (await ask(changed, ["entry", "delete", "-entryID", entryId], signal)).results;
      const { code } = result.status;
      if (code !== ok && code !== notFound) throw refusal(`deleting the entry ${entryId}`, result.status);
    },
    below,
  };
}

/** What makes two entries the same in the server's eyes. */
function isSimilar(a: SpireEntry, b: SpireEntry): boolean {
  const selectors = (entry: SpireEntry) => JSON.stringify(entry.selectors.toSorted());
  return a.spiffeId === b.spiffeId && a.parentId === b.parentId && selectors(a) === selectors(b);
}

function idText({ trust_domain: trustDomain, path }: z.infer<typeof id>): string {
  return `spiffe://${trustDomain}${path}`;
}

function refusal(doing: string, { code, message }: z.infer<typeof status>): BackendError {
  const kind = code === invalidArgument ? "terminal" : "retryable";
  return new BackendError(kind, `${doing}: SPIRE refuses with code ${code}: ${message}`);
}
