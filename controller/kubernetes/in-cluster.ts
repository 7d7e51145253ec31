import { readFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import path from "node:path";
import { type Cluster, ClusterConfigError } from "./cluster.ts";

/** Where Kubernetes puts what a Pod needs for the API. */
const defaultFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

export type InClusterOptions = {
  /** `KUBERNETES_SERVICE_HOST`: a name or an IP address. */
  readonly host: string;
  /** `KUBERNETES_SERVICE_PORT`; 443 if there is none. */
  readonly port: string | undefined;
  readonly folder?: string;
};

/**
 * The API server of the cluster in which we are a Pod.
 * https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
 */
export function inCluster({ host, port = "443", folder = defaultFolder }: InClusterOptions): Cluster {
  const address = `https://${isIPv6(host) ? `[${host}]` : host}:${port}`;
  if (!URL.canParse(address))
    throw new ClusterConfigError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: they are no address");
  return {
    server: new URL(address),
    load: async () => {
      const [token, ca] = await Promise.all([read(folder, "token"), read(folder, "ca.crt")]);
      return { headers: { Authorization: bearer(token, path.join(folder, "token")) }, ca };
    },
  };
}

/** Throws ClusterConfigError, naming where the token comes from, for what can be no token. */
export function bearer(token: string, from: string): string {
  if (!/^[\x21-\x7e]+$/.test(token)) throw new ClusterConfigError(`${from}: it holds no token`);
  return `Bearer ${token}`;
}

async function read(folder: string, name: string): Promise<string> {
  const file = path.join(folder, name);
  let text: string;
  try {
    text = (await readFile(file, "utf8")).trim();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown error";
    throw new ClusterConfigError(
      `${file} cannot be read (${code}): the Pod needs a service account whose token is mounted`,
      { cause: error },
    );
  }
  if (text === "") throw new ClusterConfigError(`${file} is empty`);
  return text;
}
