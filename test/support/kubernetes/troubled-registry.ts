import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import type { Kubernetes } from "../../../scripts/peers/cluster/kubernetes.ts";

/** A registry that has no image, for nodes to be refused by. */
export type TroubledRegistry = AsyncDisposable & {
  /** `<host>:<port>`, to be followed by `/missing`, `/private` or `/silent` and a tag. */
  readonly host: string;
  /** Ends whatever waits for an answer, and has `silent` no more than `missing` from then on. */
  hangUp(): void;
};

/** Answers by the image's name: `missing` is not there, `private` wants a login, `silent` is never answered. */
export async function startTroubledRegistry(
  { hostAddress }: Pick<Kubernetes, "hostAddress">,
  hostsFolder: string,
): Promise<TroubledRegistry> {
  let isSilent = true;
  const server = createServer(({ url = "" }, answer) => {
    if (url.includes("/silent/") && isSilent) return;
    const code = url.includes("/private/") ? 401 : url === "/v2/" ? 200 : 404;
    answer.writeHead(code, { "content-type": "application/json" });
    answer.end(code === 404 ? '{"errors":[{"code":"MANIFEST_UNKNOWN"}]}' : "{}");
  });
  server.listen(0, hostAddress);
  await once(server, "listening");
  const host = `${hostAddress}:${(server.address() as AddressInfo).port}`;
  // Without TLS, which containerd has to be told.
  const folder = path.join(hostsFolder, host);
  await mkdir(folder, { recursive: true });
  const plain = `server = "http://${host}"\n[host."http://${host}"]\n  capabilities = ["pull", "resolve"]\n`;
  await writeFile(path.join(folder, "hosts.toml"), plain);
  return {
    host,
    hangUp: () => {
      isSilent = false;
      server.closeAllConnections();
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
