import type { Texts } from "../assignment/executor-metadata.ts";
import { withDeadline } from "../platform/signal.ts";
import { type Answer, createAsking, defaultHttpApiTimes, type HttpApiOptions, wordsOf } from "./ask.ts";
import { listSandboxes, pageSize } from "./list-sandboxes.ts";
import { type NewSandbox, type OpenSandboxApi, OpenSandboxError } from "./opensandbox-api.ts";
import { isName, readPage, readPool, readSandbox } from "./read-answer.ts";
import { isGone, outageOf, plain, refusalOf } from "./refusal.ts";
import type { Call } from "./send.ts";

/**
 * The Lifecycle API of an OpenSandbox server over HTTP/1.1. It dials when it has to, so it outlives every outage.
 * https://github.com/opensandbox-group/OpenSandbox, server 1.1.1
 */
export function createHttpApi(options: HttpApiOptions): OpenSandboxApi {
  const { clock, times = defaultHttpApiTimes } = options;
  const { ask, close } = createAsking(options);

  const get: OpenSandboxApi["get"] = async (id, signal) => {
    const answer = await ask({ method: "GET", path: pathOf(id) }, signal);
    return isGone(answer, "SANDBOX") ? undefined : taken(answer, readSandbox);
  };

  const page = (filter: Texts) => async (number: number, signal: AbortSignal) => {
    // Encoded twice: it is one parameter of the query, and holds pairs that are encoded like a query.
    const metadata = new URLSearchParams(filter).toString();
    const query = { metadata, page: String(number), pageSize: String(pageSize) };
    return taken(await ask({ method: "GET", path: "/sandboxes", query }, signal), readPage);
  };

  return {
    create: async (sandbox, signal) => {
      const call: Call = { method: "POST", path: "/sandboxes", body: bodyOf(sandbox) };
      return taken(await ask(call, signal, valuesOf(sandbox)), readSandbox);
    },
    get,
    list: async (filter, signal) => {
      const keys = Object.keys(filter);
      if (keys.length === 0 || keys.includes(""))
        throw new OpenSandboxError("refused", "GET /sandboxes: without a filter it lists what others have");
      const all = await withDeadline(
        clock,
        times.listMs,
        (deadline) => listSandboxes(page(filter), deadline),
        signal,
      ).catch((error: unknown) => {
        signal.throwIfAborted();
        if (error instanceof OpenSandboxError) throw error;
        throw new OpenSandboxError("outage", `GET /sandboxes: ${wordsOf(error)}`, { cause: error });
      });
      return all.filter(({ metadata }) => hasAll(metadata, filter));
    },
    addMetadata: async (id, metadata, signal) => {
      const call: Call = { method: "PATCH", path: `${pathOf(id)}/metadata`, body: metadata };
      const answer = await ask(call, signal, Object.values(metadata));
      if (isGone(answer, "SANDBOX")) return undefined;
      const sandbox = taken(answer, readSandbox);
      // Another call at the same time may have taken it away again.
      if (!hasAll(sandbox.metadata, metadata)) throw outageOf(answer, "the answer does not have all of it");
      return sandbox;
    },
    delete: async (id, signal) => {
      const answer = await ask({ method: "DELETE", path: pathOf(id) }, signal);
      if (answer.status === 204) return true;
      if (!isGone(answer, "SANDBOX")) throw refusalOf(answer, answer);
      // Its 404 comes from whatever error has "not found" in its text; that of a GET does not.
      if ((await get(id, signal)) === undefined) return false;
      throw outageOf(answer, "what it says is not there is there");
    },
    pool: async (name, signal) => {
      if (!isName(name)) throw new OpenSandboxError("refused", "GET /pools: that is no name of a pool");
      const answer = await ask({ method: "GET", path: `/pools/${name}` }, signal);
      return isGone(answer, "POOL") ? undefined : taken(answer, readPool);
    },
    close,
  };
}

/** The task that is put into the VM is the entrypoint with this environment. */
function bodyOf({ pool, entrypoint, environment, metadata, timeoutSeconds }: NewSandbox) {
  return {
    extensions: { poolRef: pool },
    entrypoint,
    env: environment,
    metadata,
    timeout: timeoutSeconds,
  };
}

function valuesOf({ entrypoint, environment, metadata }: NewSandbox): readonly string[] {
  return [...entrypoint, ...Object.values(environment), ...Object.values(metadata)];
}

function pathOf(id: string): string {
  if (!isName(id)) throw new OpenSandboxError("refused", "/sandboxes: that is no id of a sandbox");
  return `/sandboxes/${id}`;
}

function hasAll(metadata: Texts, wanted: Texts): boolean {
  return Object.entries(wanted).every(([key, value]) => metadata[key] === value);
}

/** What a success says; `read` throws what is wrong with it. */
function taken<T>(answer: Answer, read: (text: string, hidden: readonly string[]) => T): T {
  if (answer.status < 200 || answer.status >= 300) throw refusalOf(answer, answer);
  try {
    return read(answer.text, answer.hidden);
  } catch (error) {
    throw outageOf(answer, plain(wordsOf(error), answer.hidden));
  }
}
