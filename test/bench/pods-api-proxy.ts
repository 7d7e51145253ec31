import { mkdir, readFile } from "node:fs/promises";
import { createServer as createTlsServer, request as askTls } from "node:https";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { systemClock } from "../../controller/platform/clock.ts";
import { createCertificates } from "../../scripts/peers/cluster/certificates.ts";
import type { Kubernetes } from "../../scripts/peers/cluster/kubernetes.ts";
import { writeKubeconfig } from "../../scripts/peers/cluster/kubeconfig.ts";
import type { ServiceAccount } from "../../scripts/peers/cluster/service-account-token.ts";
import { type Calls, createCalls } from "./pods-calls.ts";

/** Stands between one controller and its API server, and counts. */
export type ApiProxy = AsyncDisposable & {
  readonly calls: Calls;
  /** For the service account, by way of the proxy. */
  readonly kubeconfig: string;
};

/** `folder` is made, for its certificates. */
export async function startApiProxy(
  kubernetes: Kubernetes,
  account: ServiceAccount,
  folder: string,
  signal: AbortSignal,
): Promise<ApiProxy> {
  await mkdir(folder);
  const certificates = await createCertificates(
    folder,
    { name: "proxy", ip: "127.0.0.1" },
    systemClock.now(),
  );
  const { certificate, key } = certificates.apiServer;
  const ca = await readFile(kubernetes.ca);
  const calls = createCalls();
  const server = createTlsServer(
    { cert: await readFile(certificate), key: await readFile(key) },
    (incoming, outgoing) => {
      const { method = "", url = "/", headers } = incoming;
      calls.count(apiCallName(method, url));
      const onward = askTls(new URL(url, kubernetes.server), { method, headers, ca }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        // The controller waits for a watch's answer, not for its first event.
        outgoing.flushHeaders();
        answer.pipe(outgoing);
        answer.once("error", () => outgoing.destroy());
      });
      onward.on("error", () => outgoing.destroy());
      outgoing.once("close", () => onward.destroy());
      incoming.pipe(onward);
    },
  );
  // Neither Gitea nor the API server closes a connection after 5 s.
  server.keepAliveTimeout = 600_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const cluster = {
    server: `https://127.0.0.1:${port}`,
    ca: certificates.ca,
    namespace: account.namespace,
  };
  const token = await kubernetes.tokenFor(account, signal);
  return {
    calls,
    kubeconfig: await writeKubeconfig(path.join(folder, "kubeconfig"), cluster, { token }),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** As in `create pods`, `watch events`, `get leases`. */
export function apiCallName(method: string, url: string): string {
  const { pathname, searchParams } = new URL(url, "https://api.example");
  const parts = pathname.split("/").filter((part) => part !== "");
  // Behind `api/v1` or `apis/<group>/<version>`.
  const below = parts.slice(parts[0] === "api" ? 2 : 3);
  const [resource = "", name] = below[0] === "namespaces" && below.length > 2 ? below.slice(2) : below;
  if (method !== "GET") return `${verbs[method] ?? method} ${resource}`;
  if (searchParams.get("watch") === "true") return `watch ${resource}`;
  return `${name === undefined ? "list" : "get"} ${resource}`;
}

const verbs: Readonly<Record<string, string>> = {
  POST: "create",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};
