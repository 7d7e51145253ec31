import type { RequestOptions } from "node:https";
import path from "node:path";
import type { KubeConfig } from "@kubernetes/client-node";
import { type Cluster, ClusterConfigError, type Credential } from "./cluster.ts";
import { bearer } from "./in-cluster.ts";

/**
 * The cluster of the current context of `KUBECONFIG`, a file or several with a colon between them. Rejects with
 * ClusterConfigError. The package that reads it takes a second and 80 MB to load, so only who needs it loads it; it
 * may run a program that the file names, for a token.
 */
export async function fromKubeconfig(files: string): Promise<Cluster> {
  const { KubeConfig } = await import("@kubernetes/client-node");
  const names = files.split(path.delimiter).filter((file) => file !== "");
  const read = () => readFiles(() => new KubeConfig(), names);
  let config = read();
  const cluster = config.getCurrentCluster();
  if (cluster === null || config.getCurrentUser() === null)
    throw fault(files, "it has no current context with a cluster and a user");
  const server = URL.canParse(cluster.server) ? new URL(cluster.server) : undefined;
  if (server?.protocol !== "https:") throw fault(files, "its cluster's server is no https address");
  if (cluster.skipTLSVerify)
    throw fault(files, "it has insecure-skip-tls-verify, but certificates are always verified: give the CA");
  if (cluster.proxyUrl !== undefined) throw fault(files, "it has a proxy-url, which is not supported");
  return {
    server,
    load: async (anew) => {
      try {
        // It keeps what it has read, and the tokens that a program gave, those that do not expire for ever.
        if (anew) config = read();
        const options: RequestOptions = {};
        await config.applyToHTTPSOptions(options);
        return credentialOf(options, files);
      } catch (error) {
        if (error instanceof ClusterConfigError) throw error;
        // Its messages quote what it could not read, or what a program printed.
        throw fault(files, `its user's credential cannot be had (${codeOf(error)})`);
      }
    },
  };
}

function readFiles(create: () => KubeConfig, names: readonly string[]): KubeConfig {
  const whole = create();
  for (const name of names) {
    const config = create();
    try {
      config.loadFromFile(name);
      if (whole.currentContext === undefined) whole.setCurrentContext(config.getCurrentContext());
      whole.mergeConfig(config, true);
    } catch (error) {
      throw fault(name, `it cannot be read (${codeOf(error)})`);
    }
  }
  return whole;
}

function credentialOf(
  { headers, auth, ca, cert, key, servername }: RequestOptions,
  files: string,
): Credential {
  const given = { ca: pem(ca), cert: pem(cert), key: pem(key), servername };
  const all = Object.entries(headers ?? {}).map(([name, value]) => [name, String(value)] as const);
  const others = Object.fromEntries(all.filter(([name]) => name !== "Authorization"));
  const token = all
    .find(([name]) => name === "Authorization")?.[1]
    .replace(/^Bearer /, "")
    .trim();
  const shown =
    token !== undefined
      ? { Authorization: bearer(token, `KUBECONFIG ${files}`) }
      : typeof auth === "string"
        ? { Authorization: `Basic ${Buffer.from(auth).toString("base64")}` }
        : {};
  if (Object.keys(shown).length === 0 && given.cert === undefined)
    throw fault(files, "its user has neither a token nor a certificate");
  const there = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return { headers: { ...others, ...shown }, ...there };
}

function pem(value: unknown): string | Buffer | undefined {
  return typeof value === "string" || Buffer.isBuffer(value) ? value : undefined;
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "see whether kubectl can";
}

function fault(files: string, what: string): ClusterConfigError {
  return new ClusterConfigError(`KUBECONFIG ${files}: ${what}`);
}
