import { rm } from "node:fs/promises";
import http2 from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { Agent } from "../../proto/gen/spire/agent_pb.ts";

export type FakeAgent = {
  readonly path: string;
  readonly type: string;
  readonly banned?: boolean;
  /** Seconds since the epoch. */
  readonly expiresAt: number;
};

/** SPIRE server's API for agents, as far as it is used here, with what it knows in the test's hand. */
export type FakeSpireServer = AsyncDisposable & {
  readonly trustDomain: string;
  /** Seconds to live, by token; whoever joins takes it out. */
  readonly tokens: Map<string, number>;
  readonly agents: Map<string, FakeAgent>;
  /** The size of each page that was asked for. */
  readonly pages: number[];
  /** At most this many agents on a page. */
  pageSize: number;
  /** What the next calls answer instead; `hang` is no answer. */
  readonly answers: (ConnectError | "hang")[];
  readonly handler: (request: http2.Http2ServerRequest, response: http2.Http2ServerResponse) => void;
  /** Serves it on a unix socket; without TLS, as the server's own. */
  listen(path: string): Promise<void>;
  /** Cuts all connections and takes the socket away. */
  stop(): Promise<void>;
};

export function createFakeSpireServer(trustDomain: string): FakeSpireServer {
  const sessions = new Set<http2.ServerHttp2Session>();
  let stop = async () => {};
  const begin = async () => {
    const answer = server.answers.shift();
    if (answer === "hang") await new Promise(() => undefined);
    if (answer instanceof ConnectError) throw answer;
  };
  const handler = connectNodeAdapter({
    routes: (router) => {
      router.service(Agent, {
        createJoinToken: async ({ token, ttl }) => {
          await begin();
          if (ttl < 1) throw new ConnectError("ttl is required, you must provide one", Code.InvalidArgument);
          server.tokens.set(token, ttl);
          return { value: token };
        },
        listAgents: async ({ filter, pageSize, pageToken }) => {
          await begin();
          server.pages.push(pageSize);
          const all = [...server.agents.values()].filter(
            ({ type }) => filter === undefined || type === filter.byAttestationType,
          );
          const at = Number(pageToken);
          const end = at + Math.min(pageSize, server.pageSize);
          return {
            agents: all.slice(at, end).map(({ path, type, banned = false, expiresAt }) => ({
              id: { trustDomain, path },
              attestationType: type,
              banned,
              x509svidExpiresAt: BigInt(expiresAt),
            })),
            nextPageToken: end < all.length ? String(end) : "",
          };
        },
        deleteAgent: async ({ id }) => {
          await begin();
          if (!server.agents.delete(id?.path ?? "")) throw new ConnectError("agent not found", Code.NotFound);
          return {};
        },
      });
    },
  });
  const server: FakeSpireServer = {
    trustDomain,
    tokens: new Map(),
    agents: new Map(),
    pages: [],
    pageSize: Infinity,
    answers: [],
    handler,
    listen: async (path) => {
      const listener = http2.createServer(handler);
      listener.on("session", (session) => {
        sessions.add(session);
        session.once("close", () => sessions.delete(session));
      });
      const listening = Promise.withResolvers<void>();
      listener.once("error", listening.reject).listen(path, listening.resolve);
      await listening.promise;
      stop = async () => {
        const closed = new Promise((resolve) => listener.close(resolve));
        for (const session of sessions) session.destroy();
        await closed;
        await rm(path, { force: true });
      };
    },
    stop: async () => {
      await stop();
      stop = async () => {};
    },
    [Symbol.asyncDispose]: () => server.stop(),
  };
  return server;
}
