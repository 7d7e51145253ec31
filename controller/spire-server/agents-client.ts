import net from "node:net";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { Agent, type JoinedAgent as AgentMessage } from "../../proto/gen/spire/agent_pb.ts";
import { parseSpiffeId, pathOf, type SpiffeId } from "../identity/spiffe-id.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { exactly } from "../spiffe/authorize.ts";
import { createClientSessions } from "../spiffe/client-sessions.ts";
import type { SvidSource } from "../spiffe/x509-source.ts";
import { formatSpireServer, formatSpireServerPort, type SpireServerAddress } from "./server-address.ts";
import { SpireServerError, troubleOf } from "./server-error.ts";

/** An agent that has joined by a token. */
export type JoinedAgent = {
  readonly id: SpiffeId;
  /** When its present SVID expires, milliseconds since the epoch; it renews itself long before. */
  readonly expiresAt: number;
};

/**
 * SPIRE server's API for agents, as far as we use it. Each call has a deadline of its own and is made once. All reject
 * with SpireServerError, or with the signal's reason once that is aborted. Disposing of it ends its calls.
 */
export type AgentsClient = Disposable & {
  /** Lets one agent join with this token, once, until it expires. The token is told to nobody but the server. */
  createJoinToken(token: string, ttlSeconds: number, signal: AbortSignal): Promise<void>;
  /** All that have joined by a token and are not banned, of all pages. */
  listJoined(signal: AbortSignal): Promise<readonly JoinedAgent[]>;
  /** Forgets an agent, which then gets nothing any more; false if the server knows none of that ID. */
  delete(id: SpiffeId, signal: AbortSignal): Promise<boolean>;
};

export type AgentsClientOptions = {
  readonly address: SpireServerAddress;
  readonly trustDomain: string;
  /** Our own SVID, which is shown to a server over the network: its ID has to be in `admin_ids` there. */
  readonly source: SvidSource;
  readonly clock: Clock;
  /** Until a call must be answered; 10 s unless given. */
  readonly callMs?: number;
};

const defaultCallMs = 10_000;
const pageSize = 200;
/** A server that never comes to an end is broken. */
const mostPages = 1_000;
const maxMessageBytes = 4 * 1024 * 1024;

/** Dials when a call needs it, so it outlives restarts of the server. */
export function createAgentsClient(options: AgentsClientOptions): AgentsClient {
  const { address, trustDomain, callMs = defaultCallMs } = options;
  const { transport, close } = open(options);
  const client = createClient(Agent, transport);
  const server = `SPIRE server ${formatSpireServer(address)}`;

  const call = async <T>(doing: string, work: () => Promise<T>, signal: AbortSignal, secret?: string) => {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      signal.throwIfAborted();
      throw failure(`${doing} at ${server}`, error, options, secret);
    }
  };

  const page = (pageToken: string, signal: AbortSignal) =>
    client.listAgents(
      {
        filter: { byAttestationType: joinToken },
        outputMask: { attestationType: true, x509svidExpiresAt: true, banned: true },
        pageSize,
        pageToken,
      },
      { signal, timeoutMs: callMs },
    );

  return {
    createJoinToken: async (token, ttl, signal) => {
      await call(
        "making a join token",
        () => client.createJoinToken({ token, ttl }, { signal, timeoutMs: callMs }),
        signal,
        token,
      );
    },
    listJoined: async (signal) => {
      const found = new Map<SpiffeId, JoinedAgent>();
      let token = "";
      for (let pages = 0; pages < mostPages; pages++) {
        const at = token;
        const answer = await call("listing agents", () => page(at, signal), signal);
        for (const agent of answer.agents.flatMap((one) => readAgent(one, trustDomain)))
          found.set(agent.id, agent);
        token = answer.nextPageToken;
        if (token === "") return [...found.values()];
      }
      throw new SpireServerError("outage", `listing agents at ${server}: the pages do not end`);
    },
    delete: async (id, signal) =>
      call(
        `evicting ${id}`,
        async () => {
          try {
            await client.deleteAgent(
              { id: { trustDomain, path: pathOf(id) } },
              { signal, timeoutMs: callMs },
            );
            return true;
          } catch (error) {
            if (ConnectError.from(error).code === Code.NotFound) return false;
            throw error;
          }
        },
        signal,
      ),
    [Symbol.dispose]: close,
  };
}

const joinToken = "join_token";

function open({ address, trustDomain, source, clock }: AgentsClientOptions): {
  readonly transport: Transport;
  readonly close: () => void;
} {
  if (address.kind === "unix") {
    const baseUrl = "http://localhost";
    const sessions = new Http2SessionManager(
      baseUrl,
      {},
      { createConnection: () => net.connect(address.path) },
    );
    const transport = createGrpcTransport({
      baseUrl,
      sessionManager: sessions,
      readMaxBytes: maxMessageBytes,
    });
    return { transport, close: () => sessions.abort() };
  }
  const baseUrl = `https://${formatSpireServerPort(address)}`;
  const authorize = exactly(parseSpiffeId(`spiffe://${trustDomain}/spire/server`));
  const sessions = createClientSessions({ source, baseUrl, authorize, clock });
  const transport = createGrpcTransport({ baseUrl, sessionManager: sessions, readMaxBytes: maxMessageBytes });
  return { transport, close: () => sessions[Symbol.dispose]() };
}

/** None for what is no agent that may work: older servers know no filter for banned ones. */
function readAgent(message: AgentMessage, trustDomain: string): readonly JoinedAgent[] {
  const { id, attestationType, banned } = message;
  if (id?.trustDomain !== trustDomain || attestationType !== joinToken || banned) return [];
  try {
    const expiresAt = Number(message.x509svidExpiresAt) * 1000;
    return [{ id: parseSpiffeId(`spiffe://${id.trustDomain}${id.path}`), expiresAt }];
  } catch {
    return [];
  }
}

/** `secret` stands in no error, whatever the server says. */
function failure(
  doing: string,
  error: unknown,
  { address, source }: AgentsClientOptions,
  secret?: string,
): SpireServerError {
  const trouble = troubleOf(error);
  if (trouble === "denied")
    return new SpireServerError(
      "denied",
      address.kind === "unix"
        ? `${doing}: it does not let us do this over its own socket; see its authorization policy`
        : `${doing}: it does not let ${source.current().id} do this; that ID must stand in admin_ids of the server's configuration`,
    );
  const said = describeError(error);
  if (secret !== undefined && said.includes(secret))
    return new SpireServerError(trouble, `${doing}: ${said.replaceAll(secret, "[token]")}`);
  return new SpireServerError(trouble, doing, { cause: error });
}
