import { randomUUID } from "node:crypto";
import { afterEach, beforeEach } from "mocha";
import type { Texts } from "../../../controller/assignment/executor-metadata.ts";
import { createHttpApi } from "../../../controller/opensandbox/http-api.ts";
import {
  type NewSandbox,
  type OpenSandboxApi,
  OpenSandboxError,
  type Sandbox,
} from "../../../controller/opensandbox/opensandbox-api.ts";
import { eventually } from "../eventually.ts";
import { newName, type OpenSandboxUnderTest } from "./under-test.ts";

export const none = new AbortController().signal;

/** A create that waits for its VM. */
export type Creating = { readonly id: string; readonly created: Promise<Sandbox> };

/** What the server said, without our client. */
export type RawAnswer = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** `KUBERNETES::POOL_NOT_FOUND`, or nothing. */
  readonly code: string | undefined;
  readonly body: RawBody;
};

type RawBody = {
  readonly entrypoint?: unknown;
  readonly metadata?: Texts;
  readonly items?: readonly { readonly id: string; readonly metadata: Texts }[];
  readonly detail?: readonly { readonly type: string; readonly loc: unknown; readonly input: unknown }[];
};

/** The server of each test, with a pool and an owner that nobody else has, and a client to it. */
export type ServerInUse = {
  readonly under: OpenSandboxUnderTest;
  readonly api: OpenSandboxApi;
  readonly pool: string;
  readonly owner: string;
  /** A client with that key. */
  withKey(key: string): OpenSandboxApi;
  raw(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<RawAnswer>;
  /** Metadata of this test. */
  owned(more?: Texts): Texts;
  wanted(more?: Partial<NewSandbox>): NewSandbox;
  /** Asks for a sandbox, and resolves when the server has stored it. */
  begin(more?: Partial<NewSandbox>, signal?: AbortSignal): Promise<Creating>;
  /** One that runs. */
  make(more?: Partial<NewSandbox>): Promise<Sandbox>;
  /** Resolves when the server says so of it: what others write takes it a moment. */
  says(id: string, what: (sandbox: Sandbox | undefined) => boolean): Promise<void>;
  /** It is not stored any more. */
  goes(id: string): Promise<void>;
};

/** `make` is called for each test. */
export function useServer(make: () => Promise<OpenSandboxUnderTest>): ServerInUse {
  let under: OpenSandboxUnderTest;
  let clients: OpenSandboxApi[];
  let api: OpenSandboxApi;
  let names: { readonly pool: string; readonly owner: string };
  let left: AbortController;
  const withKey = (key: string) => {
    const client = createHttpApi({
      url: under.url,
      key: () => Promise.resolve(key),
      requestId: randomUUID,
      clock: under.clock,
    });
    clients.push(client);
    return client;
  };
  beforeEach(async () => {
    under = await make();
    clients = [];
    left = new AbortController();
    api = withKey(under.key);
    names = { pool: newName("pool"), owner: newName("owner") };
    await under.pools.setPool(names.pool, { total: 4, allocated: 0, available: 4 });
  });
  afterEach(async () => {
    left.abort();
    for (const client of clients) client.close();
    await under[Symbol.asyncDispose]();
  });

  const owned = (more: Texts = {}) => ({ "ci.ddupan.top/owner": names.owner, ...more });
  const wanted = (more: Partial<NewSandbox> = {}): NewSandbox => ({
    pool: names.pool,
    entrypoint: ["gitea-opensandbox-runner"],
    environment: { SPIFFE_ENDPOINT_SOCKET: "unix:///run/spire/agent.sock" },
    timeoutSeconds: 600,
    ...more,
    metadata: owned(more.metadata),
  });
  const begin: ServerInUse["begin"] = async (more = {}, signal = left.signal) => {
    const nonce = newName("nonce");
    const sandbox = wanted({ ...more, metadata: { ...more.metadata, "ci.ddupan.top/nonce": nonce } });
    const created = api.create(sandbox, signal);
    // Whoever wants to know of it looks at it later.
    created.catch(() => undefined);
    return { id: await under.pools.asked({ "ci.ddupan.top/nonce": nonce }), created };
  };
  return {
    get under() {
      return under;
    },
    get api() {
      return api;
    },
    get pool() {
      return names.pool;
    },
    get owner() {
      return names.owner;
    },
    withKey,
    raw: async (method, path, body, headers = { "OPEN-SANDBOX-API-KEY": under.key }) => {
      const answer = await fetch(new URL(`/v1${path}`, under.url), {
        method,
        headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      const text = await answer.text();
      const read = answer.headers.get("content-type")?.includes("json") === true ? JSON.parse(text) : {};
      const { code } = read as { code?: string };
      return { status: answer.status, headers: answer.headers, text, code, body: read as RawBody };
    },
    owned,
    wanted,
    begin,
    make: async (more) => {
      const { id, created } = await begin(more);
      await under.pools.give(id);
      return await created;
    },
    says: (id, what) =>
      eventually(`the server says so of ${id}`, async () => what(await api.get(id, none)), 50_000, 20),
    goes: (id) => eventually(`${id} is gone`, async () => !(await under.pools.isThere(id)), 50_000, 20),
  };
}

/** The error with which it failed. */
export async function troubleOf(work: Promise<unknown>): Promise<OpenSandboxError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof OpenSandboxError) return error;
    throw error;
  }
  throw new Error("it did not fail");
}
