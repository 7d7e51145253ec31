import type { Document } from "./document.ts";
import { badRequest, expired } from "./refused.ts";
import { apiVersionOf, type Target } from "./resources.ts";
import { selectorOf } from "./selectors.ts";
import type { Store } from "./store.ts";

type Rest = { readonly documents: readonly Document[]; readonly version: number };

/** Answers lists, in pages if that is asked for; later pages are as the collection was at the first one. */
export function createLister(store: Store) {
  const rests = new Map<string, Rest>();
  let tokens = 0;
  return (target: Target, query: Readonly<Record<string, string>>): object => {
    const { resource, namespace } = target;
    const { limit = "0", continue: token = "" } = query;
    const selects = selectorOf(resource, query);
    if (!/^\d+$/.test(limit)) throw badRequest(`invalid limit ${limit}`);
    const rest =
      token === "" ? { documents: store.all(resource, namespace), version: store.version } : rests.get(token);
    if (rest === undefined) throw badRequest("continue key is not valid");
    if (token !== "" && rest.version < store.oldest)
      throw expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
      );
    const documents = rest.documents.filter(selects);
    const size = Number(limit) === 0 ? documents.length : Number(limit);
    const left = documents.slice(size);
    const metadata: Record<string, unknown> = { resourceVersion: String(rest.version) };
    if (left.length > 0) {
      const next = Buffer.from(JSON.stringify({ v: "meta.k8s.io/v1", page: ++tokens })).toString("base64");
      rests.set(next, { documents: left, version: rest.version });
      metadata["continue"] = next;
      if (query["labelSelector"] === undefined && query["fieldSelector"] === undefined)
        metadata["remainingItemCount"] = left.length;
    }
    // The items of a built-in kind do not say again what they are.
    const items = documents
      .slice(0, size)
      .map(({ apiVersion, kind, ...others }) => (resource.custom ? { apiVersion, kind, ...others } : others));
    return { kind: `${resource.kind}List`, apiVersion: apiVersionOf(resource), metadata, items };
  };
}
