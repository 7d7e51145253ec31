import type { Clock } from "../../../controller/platform/clock.ts";
import { apiError, coded, type FakeAnswer, type FakeRequest, noPool, noSandbox, Refused } from "./answer.ts";
import type { Verb } from "./faults.ts";
import { readCreate, readList, readPatch, setIn } from "./forms.ts";
import { checkStored } from "./labels.ts";
import type { FakePools } from "./pools.ts";
import type { Store } from "./store.ts";
import { createdDocumentOf, documentOf, metadataOf, statusOf, type StoredSandbox } from "./stored-sandbox.ts";
import { type CreateLimits, waitForVm } from "./wait-for-vm.ts";

/** What may be wrong with a server for longer than a call. */
export type Troubles = {
  /** What lists, or all reads, show instead of what there is. */
  frozen?: { readonly what: "lists" | "reads"; readonly sandboxes: readonly StoredSandbox[] };
  /** A create that came to nothing leaves its sandbox. */
  failsRollback: boolean;
  isStoreAway: boolean;
  /** Of a pools' controller that writes the phase `Pending` at once. */
  isOld: boolean;
};

type Operation = (
  request: FakeRequest,
  name: string,
  life: AbortSignal,
  within: () => Promise<void>,
) => Promise<FakeAnswer>;

export function createOperations(
  store: Store,
  pools: FakePools,
  clock: Clock,
  limits: CreateLimits & { readonly lifeSeconds: number },
  troubles: Troubles,
  newId: () => string,
): Readonly<Record<Verb, Operation>> {
  const listed = () => troubles.frozen?.sandboxes ?? store.all();
  const read = (id: string) =>
    troubles.frozen?.what === "reads"
      ? troubles.frozen.sandboxes.find((one) => one.id === id)
      : store.get(id);
  const existing = (id: string) => {
    const sandbox = read(id);
    if (sandbox === undefined) throw noSandbox(id);
    return sandbox;
  };
  const shown = (sandbox: StoredSandbox) => documentOf(sandbox, troubles.isOld);
  /** The answer to whoever asks while the cluster is away. */
  const needsStore = (answer: Refused) => {
    if (troubles.isStoreAway) throw answer;
  };
  const away = "HTTPSConnectionPool(host='127.0.0.1'): Max retries exceeded: Connection refused";

  return {
    create: async ({ text }, _, life) => {
      const form = readCreate(text, limits.lifeSeconds);
      needsStore(coded(500, "KUBERNETES::POOL_API_ERROR", away));
      if (!pools.has(form.pool)) throw noPool(form.pool);
      const { metadata, pool, environment, extensions, entrypoint, timeout } = form;
      checkStored(metadata, { metadata, environment });
      const id = newId();
      const createdAt = clock.now();
      store.add({
        id,
        pool,
        createdAt,
        ...(timeout === undefined ? {} : { expiresAt: createdAt + timeout * 1000 }),
        ...(entrypoint === undefined ? {} : { entrypoint }),
        environment,
        extensions,
        labels: { ...metadata, "opensandbox.io/id": id },
        vm: { kind: "none" },
        hasPlace: false,
        isFull: false,
        isHeld: false,
        isDeleting: false,
      });
      const refused = await waitForVm(store, clock, id, limits, life);
      const sandbox = store.get(id);
      if (refused === undefined && sandbox !== undefined)
        return { status: 202, body: createdDocumentOf(sandbox) };
      if (!troubles.failsRollback) store.delete(id);
      throw refused ?? noSandbox(id);
    },
    get: async (_, id) => {
      needsStore(coded(500, "KUBERNETES::API_ERROR", away));
      return { status: 200, body: shown(existing(id)) };
    },
    list: async ({ query }) => {
      const { filter, states, page, pageSize } = readList(query);
      needsStore(coded(503, "SANDBOX_LIST_UNAVAILABLE", "Sandbox list is temporarily unavailable"));
      const second = ({ createdAt }: StoredSandbox) => Math.floor(createdAt / 1000);
      const all = listed()
        .filter((one) => {
          const metadata = metadataOf(one);
          const { state } = statusOf(one, troubles.isOld);
          return (
            Object.entries(filter).every(([key, value]) => metadata[key] === value) &&
            (states.length === 0 || states.includes(state.toLowerCase()))
          );
        })
        .toSorted((a, b) => second(b) - second(a) || (a.id < b.id ? -1 : 1));
      const totalPages = Math.ceil(all.length / pageSize);
      const pagination = {
        page,
        pageSize,
        totalItems: all.length,
        totalPages,
        hasNextPage: page < totalPages,
      };
      const items = all.slice((page - 1) * pageSize, page * pageSize).map(shown);
      return { status: 200, body: { items, pagination } };
    },
    patch: async ({ text, headers }, id, _, within) => {
      const patch = readPatch(text, String(headers["content-type"]));
      needsStore(new Refused({ status: 500, body: "Internal Server Error" }));
      const seen = existing(id).labels;
      await within();
      const now = store.get(id);
      if (now === undefined) throw noSandbox(id);
      checkStored(setIn(patch), patch);
      // All that it had seen is written anew, over whatever others have changed; what it has never seen stays.
      const merged = new Map(Object.entries({ ...now.labels, ...seen, ...setIn(patch) }));
      for (const [key, value] of Object.entries(patch)) if (value === null) merged.delete(key);
      store.change(id, { labels: Object.fromEntries(merged) });
      const after = store.get(id);
      if (after === undefined) throw apiError("it is gone");
      return { status: 200, body: shown(after) };
    },
    delete: async (_, id) => {
      needsStore(coded(500, "KUBERNETES::API_ERROR", away));
      if (store.get(id) === undefined) throw noSandbox(id);
      store.delete(id);
      return { status: 204 };
    },
    pool: async (_, name) => {
      needsStore(coded(500, "KUBERNETES::POOL_API_ERROR", away));
      const pool = pools.document(name);
      if (pool === undefined) throw noPool(name);
      return { status: 200, body: pool };
    },
  };
}
