import { once } from "node:events";
import { mkdir, readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { createServer, request as ask } from "node:https";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { findCluster } from "../../../controller/kubernetes/find-cluster.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { createCertificates } from "../../../scripts/peers/cluster/certificates.ts";
import { writeKubeconfig } from "../../../scripts/peers/cluster/kubeconfig.ts";

/** A way to an API server on which the events of watches can be kept; all other calls pass. */
export type WithheldWatches = AsyncDisposable & {
  /** For the same user, by way of this. */
  readonly kubeconfig: string;
  /**
   * Ends the watches that are open, as the API server may at any time, and from now on keeps all that new ones tell, their end
   * too: their connections stay open. May be called again, so that what is there by now is listed once more.
   */
  withhold(): void;
  /** Tells what was kept, and keeps nothing any more. */
  release(): void;
};

const address = "127.0.0.1";

/** `folder` is made, for its certificates. */
export async function startWithheldWatches(
  kubeconfig: string,
  folder: string,
  signal: AbortSignal,
): Promise<WithheldWatches> {
  await mkdir(folder);
  const certificates = await createCertificates(folder, { name: "proxy", ip: address }, systemClock.now());
  const { certificate, key } = certificates.apiServer;
  const target = await findCluster({ KUBECONFIG: kubeconfig }, systemClock, signal);
  const { headers: own, ...tls } = await target.load(false);
  const open = new Map<IncomingMessage, { readonly tell: () => void; readonly end: () => void }>();
  let isWithheld = false;

  const server = createServer(
    { cert: await readFile(certificate), key: await readFile(key) },
    (incoming, outgoing) => {
      const { method, url = "/", headers } = incoming;
      const to = new URL(url, target.server);
      const onward = ask(to, { method, headers: { ...headers, ...own, host: to.host }, ...tls }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        outgoing.flushHeaders();
        answer.once("error", () => outgoing.destroy());
        const tell = () => void answer.pipe(outgoing);
        if (isWatch(to)) {
          const end = () => {
            answer.unpipe(outgoing);
            outgoing.end();
          };
          open.set(answer, { tell, end });
          outgoing.once("close", () => open.delete(answer));
          if (isWithheld) return;
        }
        tell();
      });
      onward.on("error", () => outgoing.destroy());
      outgoing.once("close", () => onward.destroy());
      incoming.pipe(onward);
    },
  );
  server.listen(0, address);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const { ca, admin } = certificates;
  return {
    // Who it is to this proxy nobody asks.
    kubeconfig: await writeKubeconfig(
      path.join(folder, "kubeconfig"),
      { server: `https://${address}:${port}`, ca },
      admin,
    ),
    withhold: () => {
      isWithheld = true;
      for (const { end } of open.values()) end();
      open.clear();
    },
    release: () => {
      if (!isWithheld) return;
      isWithheld = false;
      for (const { tell } of open.values()) tell();
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function isWatch({ searchParams }: URL): boolean {
  return /^(true|1)$/i.test(searchParams.get("watch") ?? "");
}
