import { randomUUID } from "node:crypto";
import type { Clock } from "../../../controller/platform/clock.ts";
import { coded, CutOff, type FakeAnswer, type FakeRequest, Refused } from "./answer.ts";
import { type CallMatch, createFaults, type FakeCall, type Faults, type Verb } from "./faults.ts";
import { createHands, type Hands } from "./hands.ts";
import { createOperations, type Troubles } from "./operations.ts";
import { createPools, type FakePools, type PoolHooks } from "./pools.ts";
import { type Served, serve, type ServeOptions } from "./serve.ts";
import { createStore } from "./store.ts";
import type { CreateLimits } from "./wait-for-vm.ts";

export type FakeOpenSandboxOptions = PoolHooks &
  Partial<CreateLimits & ServeOptions> & {
    readonly clock: Clock;
    readonly key?: string;
    readonly lifeSeconds?: number;
  };

/**
 * An OpenSandbox server 1.1.1 in memory, over HTTP, with the hands of whoever else is at work in its cluster.
 * `pools.open` makes a pool that gives its places by itself.
 */
export type FakeOpenSandbox = AsyncDisposable &
  Pick<Faults, "failNext" | "holdNext"> &
  Hands &
  Pick<Served, "url" | "setAway"> & {
    readonly served: Pick<Served, "connections" | "connected" | "open">;
    /** The one that is taken; another from now on. */
    key: string;
    /** All calls that came with the right key. */
    readonly calls: readonly FakeCall[];
    count(match: CallMatch): number;
    readonly pools: Omit<FakePools, "heldByHand" | "document">;
    /** Ends all that runs, without an answer; what is stored stays. */
    restart(): void;
  };

export async function startFakeOpenSandbox(options: FakeOpenSandboxOptions): Promise<FakeOpenSandbox> {
  const {
    clock,
    createMs = 60_000,
    poolMs = 30_000,
    lifeSeconds = 86_400,
    keepAliveMs = 5_000,
    tls,
  } = options;
  const whole = new AbortController();
  let life = new AbortController();
  const store = createStore(clock, whole.signal);
  const pools = createPools(store, clock, options, whole.signal);
  const faults = createFaults();
  const troubles: Troubles = { failsRollback: false, isStoreAway: false, isOld: false };
  const limits = { createMs, poolMs, lifeSeconds };
  const operations = createOperations(store, pools, clock, limits, troubles, randomUUID);
  const calls: FakeCall[] = [];

  const handle = async (request: FakeRequest): Promise<FakeAnswer> => {
    const requestId = String(request.headers["x-request-id"] ?? randomUUID());
    const headers = { "X-Request-ID": requestId };
    const { signal } = life;
    try {
      if (request.path === "/health") return { status: 200, body: { status: "healthy" }, headers };
      checkKey(request, fake.key);
      const { verb, name } = targetOf(request);
      const { query, text } = request;
      const call = { verb, what: `${request.method} ${request.path}`, query, requestId, text };
      calls.push(call);
      const work = (within: () => Promise<void>) => operations[verb](request, name, signal, within);
      const answer = await faults.around(call, work, signal);
      return { ...answer, headers: { ...headers, ...answer.headers } };
    } catch (error) {
      if (signal.aborted) throw new CutOff("the server is gone");
      if (!(error instanceof Refused)) throw error;
      throw new Refused({ ...error.answer, headers: { ...headers, ...error.answer.headers } });
    }
  };
  const served = await serve(handle, { keepAliveMs, ...(tls === undefined ? {} : { tls }) });

  const hands = createHands(store, pools, troubles, clock, whole.signal);
  const fake: FakeOpenSandbox = {
    ...hands,
    url: served.url,
    served,
    setAway: (isAway) => served.setAway(isAway),
    key: options.key ?? "fake-key-of-the-server",
    failNext: (match, fault, times) => faults.failNext(match, fault, times),
    holdNext: (match, stage) => faults.holdNext(match, stage),
    calls,
    count: (match) =>
      calls.filter((call) => (typeof match === "string" ? match === call.verb : match(call))).length,
    pools,
    restart: () => {
      life.abort(new Error("the server is gone"));
      served.setAway(true);
      served.setAway(false);
      life = new AbortController();
      hands.thaw();
    },
    [Symbol.asyncDispose]: async () => {
      life.abort(new Error("the server is gone"));
      whole.abort(new Error("the test is over"));
      await served.close();
    },
  };
  return fake;
}

function checkKey({ headers }: FakeRequest, key: string): void {
  const given = headers["open-sandbox-api-key"];
  if (given === undefined) throw coded(401, "MISSING_API_KEY", "Authentication credentials are missing.");
  if (given !== key) throw coded(401, "INVALID_API_KEY", "Authentication credentials are invalid.");
}

const verbs: Readonly<Record<string, Verb>> = {
  "POST /sandboxes": "create",
  "GET /sandboxes": "list",
  "GET /sandboxes/*": "get",
  "DELETE /sandboxes/*": "delete",
  "PATCH /sandboxes/*/metadata": "patch",
  "GET /pools/*": "pool",
};

function targetOf({ method, path }: FakeRequest): { readonly verb: Verb; readonly name: string } {
  const [, collection, name, part] = path.split("/");
  const form = [collection, name === undefined ? undefined : "*", part].filter((one) => one !== undefined);
  const verb = verbs[`${method} /${form.join("/")}`];
  if (verb === undefined) throw new Refused({ status: 404, body: { detail: "Not Found" } });
  return { verb, name: decodeURIComponent(name ?? "") };
}
