import { once } from "node:events";
import { type AddressInfo, createConnection, createServer, type NetConnectOpts, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import type { TestLeaf } from "../test-pki.ts";

export type ForwardOptions = {
  readonly address: string;
  /** A free one unless given. */
  readonly port?: number;
  readonly to: NetConnectOpts;
  /** With TLS, which ends here, if given. */
  readonly leaf?: TestLeaf;
};

/** Passes on what comes to an address of ours. */
export type Forward = AsyncDisposable & { readonly port: number };

/** Starts it; whoever connects is connected to `to`, until one of both hangs up. */
export async function startForward({ address, port = 0, to, leaf }: ForwardOptions): Promise<Forward> {
  const open = new Set<Socket>();
  const join = (near: Socket) => {
    const far = createConnection(to);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        open.delete(one);
        other.destroy();
      });
    }
  };
  const server =
    leaf === undefined
      ? createServer(join)
      : createTlsServer({ cert: leaf.chainPem, key: leaf.keyPem }, join);
  server.listen(port, address);
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
