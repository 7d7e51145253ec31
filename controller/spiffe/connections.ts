import type { Http2SecureServer, Http2Session } from "node:http2";
import type { DropArgument, Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Bundle } from "./bundle.ts";
import type { RefusedPeer } from "./refused-peer.ts";
import { createSessionCounter } from "./session-limits.ts";
import type { TlsLimits } from "./tls-limits.ts";

/** The open connections, including those that are still shaking hands. */
export type Connections = {
  /** What the session's peer was verified with; undefined if that is not known. */
  bundleOf(session: Http2Session): Bundle | undefined;
  /** Whether it was over the limits: its failed handshake is no news. */
  wasRefused(socket: TLSSocket): boolean;
  destroyAll(): void;
};

/**
 * Follows a server's connections and limits them before anybody knows who they are. Of one address only so many may
 * shake hands at once, so that it cannot keep everybody else out.
 */
export function trackConnections(
  server: Http2SecureServer,
  limits: Pick<TlsLimits, "connections" | "handshakesPerAddress">,
  onRefused: (peer: RefusedPeer) => void,
  bundle: () => Bundle,
): Connections {
  const connections = new Set<Socket>();
  const handshakes = createSessionCounter({ total: limits.connections, perKey: limits.handshakesPerAddress });
  const ready = new WeakMap<object, () => void>();
  const bundles = new WeakMap<object, Bundle>();
  const refused = new WeakSet<object>();
  server.maxConnections = limits.connections;
  server.on("drop", (dropped?: DropArgument) => {
    const remoteAddress = dropped?.remoteAddress;
    onRefused({ kind: "too-many", reason: "too many connections", remoteAddress });
  });
  // Before TLS takes the connection: a socket that is destroyed here never shakes hands.
  server.prependListener("connection", (socket: Socket) => {
    // A socket remembers its peer's address only if it was asked before it was closed.
    const address = socket.remoteAddress ?? "";
    if (handshakes.enter(address) !== undefined) {
      onRefused({ kind: "too-many", reason: "too many handshakes of this address", remoteAddress: address });
      refused.add(socket);
      socket.destroy();
      return;
    }
    connections.add(socket);
    bundles.set(socket, bundle());
    let shaking = true;
    const shaken = () => {
      if (shaking) handshakes.leave(address);
      shaking = false;
    };
    ready.set(socket, shaken);
    socket.once("close", () => {
      connections.delete(socket);
      shaken();
    });
  });
  server.on("secureConnection", (socket) => {
    const below = connectionBelow(socket);
    if (below !== undefined) ready.get(below)?.();
  });
  return {
    bundleOf: (session) => {
      const below = connectionBelow(session.socket);
      return below && bundles.get(below);
    },
    wasRefused: (socket) => refused.has(connectionBelow(socket) ?? socket),
    destroyAll: () => {
      for (const connection of connections) connection.destroy();
    },
  };
}

/** The connection that a TLSSocket was made of; it has no public name. */
export function connectionBelow(socket: object): object | undefined {
  const below: unknown = socket instanceof TLSSocket ? Reflect.get(socket, "_parent") : undefined;
  return typeof below === "object" && below !== null ? below : undefined;
}
