import type { ClientHttp2Stream } from "node:http2";
import { type ConnectTransportOptions, Http2SessionManager } from "@connectrpc/connect-node";
import { createTlsDialer, type TlsDialerOptions } from "./tls-client.ts";
import type { SvidSource } from "./x509-source.ts";

type SessionManager = NonNullable<(ConnectTransportOptions & { httpVersion: "2" })["sessionManager"]>;

export type ClientSessionsOptions = Omit<TlsDialerOptions, "source" | "host" | "port"> & {
  readonly source: SvidSource;
  /** The `baseUrl` of the transport, https only. Its host is where to dial. */
  readonly baseUrl: string;
  /** Between pings on a connection with running calls; none if not given. */
  readonly pingIntervalMs?: number;
  /** Until a ping must be answered. */
  readonly pingTimeoutMs?: number;
};

/**
 * The `sessionManager` of a connect-node transport with `httpVersion: "2"`: dials when a call needs it, after a
 * failure too. Disposing of it ends all calls and connections.
 */
export type ClientSessions = SessionManager &
  Disposable & {
    /** Lets the next call dial anew; calls that run keep their connection until they are through. */
    redial(): void;
  };

/** Connections without calls are closed after this time, among them those that were replaced. */
const idleConnectionTimeoutMs = 60_000;

/**
 * Keeps one connection for new calls. When the source has a new SVID the next call dials with it, long before the
 * server would close the connection because the old one expired: a server's GOAWAY may cross a call that is just
 * being sent, our own change of connections never does.
 */
export function createClientSessions(options: ClientSessionsOptions): ClientSessions {
  const { source, baseUrl, pingIntervalMs, pingTimeoutMs, ...dialerOptions } = options;
  const { protocol, hostname, port } = new URL(baseUrl);
  if (protocol !== "https:") throw new Error(`${baseUrl} is no https address`);
  const host = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
  const dial = createTlsDialer({ ...dialerOptions, source, host, port: port === "" ? 443 : Number(port) });
  const pings = {
    ...(pingIntervalMs !== undefined && { pingIntervalMs }),
    ...(pingTimeoutMs !== undefined && { pingTimeoutMs }),
  };
  const create = () =>
    new Http2SessionManager(baseUrl, { ...pings, idleConnectionTimeoutMs }, { createConnection: dial });
  let current = create();
  let retired: Http2SessionManager[] = [];
  const owners = new WeakMap<ClientHttp2Stream, Http2SessionManager>();
  const redial = () => {
    retired = [...retired, current].filter(
      (manager) => manager.state() !== "closed" && manager.state() !== "error",
    );
    current = create();
  };
  const stopFollowing = source.onUpdate(redial);
  return {
    authority: current.authority,
    redial,
    request: async (...request) => {
      const manager = current;
      const stream = await manager.request(...request);
      owners.set(stream, manager);
      return stream;
    },
    notifyResponseByteRead: (stream) => owners.get(stream)?.notifyResponseByteRead(stream),
    [Symbol.dispose]: () => {
      stopFollowing();
      for (const manager of [...retired, current]) manager.abort();
    },
  };
}
