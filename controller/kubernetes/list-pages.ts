import { fieldOf, metaOf, type Seen, seenOf } from "./document.ts";
import { ApiOutage, ApiRefusal, type KubernetesApi } from "./kubernetes-api.ts";

export type ListOptions = {
  readonly api: Pick<KubernetesApi, "call">;
  readonly path: string;
  /** Selectors. */
  readonly query: Readonly<Record<string, string>>;
  readonly pageSize: number;
  /** Makes less of an object, as soon as its page is there. */
  readonly keep: (document: unknown) => unknown;
};

/** A collection as it was at one moment. */
export type WholeList = {
  readonly seen: readonly Seen[];
  /** A watch from here misses nothing that is not in the list. */
  readonly resourceVersion: string;
};

/** A server that stops at no page is out of order. */
const maxPages = 1_000;
/** Its snapshot of the first page is kept for minutes, so that one that expires twice is out of order too. */
const maxBegins = 3;

/**
 * A whole collection as it was at one moment after the call, in pages. Begins anew if its snapshot expires. Rejects as
 * KubernetesApi does.
 * https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
 */
export async function listPages(options: ListOptions, signal: AbortSignal): Promise<WholeList> {
  for (let begins = 1; ; begins++) {
    try {
      return await listOnce(options, signal);
    } catch (error) {
      if (!isExpired(error) || begins === maxBegins) throw error;
    }
  }
}

/** The version or the snapshot that was asked for is not kept any more: only a new list helps. */
export function isExpired(error: unknown): boolean {
  return error instanceof ApiRefusal && error.status === 410;
}

async function listOnce(
  { api, path, query, pageSize, keep }: ListOptions,
  signal: AbortSignal,
): Promise<WholeList> {
  const seen: Seen[] = [];
  let next = "";
  for (let pages = 0; pages < maxPages; pages++) {
    const page = await api.call(
      {
        method: "GET",
        path,
        query: { ...query, limit: String(pageSize), ...(next === "" ? {} : { continue: next }) },
      },
      signal,
    );
    const items = fieldOf(page, "items");
    const { resourceVersion } = metaOf(page);
    // Go writes a list without items as null.
    if ((items !== null && !Array.isArray(items)) || resourceVersion === "")
      throw new ApiOutage(`GET ${path}: the answer is no list`);
    for (const item of items ?? []) {
      const one = seenOf(item, keep);
      if (one.name === "") throw new ApiOutage(`GET ${path}: an object has no name`);
      seen.push(one);
    }
    const token = fieldOf(fieldOf(page, "metadata"), "continue");
    if (typeof token !== "string" || token === "") return { seen, resourceVersion };
    next = token;
  }
  throw new ApiOutage(`GET ${path}: the list does not end`);
}
