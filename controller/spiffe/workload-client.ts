import net from "node:net";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import {
  type JWTSVIDResponse,
  SpiffeWorkloadAPI,
  type X509SVIDResponse,
} from "../../proto/gen/spiffe/workload_pb.ts";
import type { SpiffeId } from "../identity/spiffe-id.ts";
import { type Endpoint, formatEndpoint } from "./endpoint.ts";

export type JwtSvidRequest = {
  readonly audience: string;
  readonly spiffeId: SpiffeId;
  readonly timeoutMs: number;
};

/**
 * The calls of the SPIFFE Workload API that we make. They reject with ConnectError; `isFinal` says whether another
 * try makes sense. The client dials when it has to, so it outlives restarts of the agent and a socket that is not
 * there yet. Disposing of it ends its calls.
 */
export type WorkloadClient = Disposable & {
  /** As SPIFFE_ENDPOINT_SOCKET spells it, for messages. */
  readonly endpoint: string;
  /** Each message is the whole state. Ends only when the other side or the signal ends it; may be silent at first. */
  watchX509Svids(signal: AbortSignal): AsyncIterable<X509SVIDResponse>;
  fetchJwtSvids(request: JwtSvidRequest, signal: AbortSignal): Promise<JWTSVIDResponse>;
};

const maxMessageBytes = 4 * 1024 * 1024;

/** Asked for by the SPIFFE Workload Endpoint, section 6.1, against requests that somebody else was tricked into. */
const securityHeader: Interceptor = (next) => (request) => {
  request.header.set("workload.spiffe.io", "true");
  return next(request);
};

/**
 * A client of the Workload API at an endpoint. The agent takes the identity of the caller from the process that
 * dials, at the moment when it dials.
 */
export function createWorkloadClient(endpoint: Endpoint): WorkloadClient {
  const baseUrl = "http://localhost";
  // No pings: agents answer too many of them with GOAWAY, and the kernel tells when a local peer is gone.
  const sessions = new Http2SessionManager(baseUrl, {}, { createConnection: () => dial(endpoint) });
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager: sessions,
    interceptors: [securityHeader],
    readMaxBytes: maxMessageBytes,
  });
  const client = createClient(SpiffeWorkloadAPI, transport);
  return {
    endpoint: formatEndpoint(endpoint),
    watchX509Svids: (signal) => client.fetchX509SVID({}, { signal }),
    fetchJwtSvids: ({ audience, spiffeId, timeoutMs }, signal) =>
      client.fetchJWTSVID({ audience: [audience], spiffeId }, { signal, timeoutMs }),
    [Symbol.dispose]: () => {
      sessions.abort();
    },
  };
}

function dial(endpoint: Endpoint): net.Socket {
  return endpoint.kind === "unix" ? net.connect(endpoint.path) : net.connect(endpoint.port, endpoint.host);
}
