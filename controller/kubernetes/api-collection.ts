import type { ApiCall, KubernetesApi } from "./kubernetes-api.ts";
import { ApiRefusal, isRefusal } from "./kubernetes-api.ts";
import { listPages } from "./list-pages.ts";
import type { JsonObject } from "./json.ts";

const pageSize = 250;

/** An object is only removed as the one that it was taken for. */
export type Precondition = {
  readonly uid: string;
  readonly resourceVersion?: string;
  /** The object's own unless given. */
  readonly graceSeconds?: number;
};

export type Patched =
  | { readonly kind: "done"; readonly object: unknown }
  /** It is another object by now, or, if the patch holds a version, another version of it. */
  | { readonly kind: "changed" }
  | { readonly kind: "gone" };

/** The objects of one kind, by name. Rejects as KubernetesApi does with what is not told otherwise. */
export type ApiCollection = {
  readonly path: string;
  /** An uncached read; undefined if there is none. */
  get(name: string, signal: AbortSignal): Promise<unknown>;
  /** An uncached read of all that have these labels. */
  list(labelSelector: string, signal: AbortSignal): Promise<readonly unknown[]>;
  create(manifest: unknown, signal: AbortSignal): Promise<unknown>;
  /** A JSON merge patch, https://www.rfc-editor.org/rfc/rfc7386. */
  patch(name: string, patch: JsonObject, signal: AbortSignal): Promise<Patched>;
  /** False if there is no such object any more, or if it is another one by now. */
  remove(name: string, precondition: Precondition, signal: AbortSignal): Promise<boolean>;
};

/** `path` is that of the collection, such as `/api/v1/namespaces/x/pods`. */
export function createApiCollection(api: Pick<KubernetesApi, "call">, path: string): ApiCollection {
  const at = (name: string) => `${path}/${encodeURIComponent(name)}`;
  const unlessGone = async (call: ApiCall, signal: AbortSignal): Promise<unknown> => {
    try {
      return await api.call(call, signal);
    } catch (error) {
      if (isRefusal(error, "NotFound")) return undefined;
      throw error;
    }
  };
  return {
    path,
    get: (name, signal) => unlessGone({ method: "GET", path: at(name) }, signal),
    list: async (labelSelector, signal) => {
      const { seen } = await listPages(
        { api, path, query: { labelSelector }, pageSize, keep: whole },
        signal,
      );
      return seen.map(({ document }) => document);
    },
    create: (body, signal) => api.call({ method: "POST", path, body }, signal),
    patch: async (name, body, signal) => {
      const contentType = "application/merge-patch+json";
      try {
        const object = await unlessGone({ method: "PATCH", path: at(name), body, contentType }, signal);
        return object === undefined ? { kind: "gone" } : { kind: "done", object };
      } catch (error) {
        if (isChanged(error)) return { kind: "changed" };
        throw error;
      }
    },
    remove: async (name, { graceSeconds, ...preconditions }, signal) => {
      const body = {
        apiVersion: "v1",
        kind: "DeleteOptions",
        preconditions,
        ...(graceSeconds === undefined ? {} : { gracePeriodSeconds: graceSeconds }),
      };
      try {
        return (await unlessGone({ method: "DELETE", path: at(name), body }, signal)) !== undefined;
      } catch (error) {
        if (isChanged(error)) return false;
        throw error;
      }
    },
  };
}

/** A patch that holds another UID than the object's is invalid rather than in conflict. */
function isChanged(error: unknown): boolean {
  if (isRefusal(error, "Conflict")) return true;
  return error instanceof ApiRefusal && error.status === 422 && /metadata\.uid\b/.test(error.message);
}

function whole(document: unknown): unknown {
  return document;
}
