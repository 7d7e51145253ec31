import { writeFile } from "node:fs/promises";
import type { KeyFiles } from "./certificates.ts";

/** Who somebody is to the API server. */
export type KubeUser = KeyFiles | { readonly token: string };

/** Writes a kubeconfig, readable for us only, and returns its path. A kubeconfig is YAML, and so is JSON. */
export async function writeKubeconfig(
  file: string,
  cluster: { readonly server: string; readonly ca: string; readonly namespace?: string },
  user: KubeUser,
): Promise<string> {
  const credentials =
    "token" in user
      ? { token: user.token }
      : { "client-certificate": user.certificate, "client-key": user.key };
  const { server, ca, namespace = "default" } = cluster;
  const name = "cluster";
  const text = JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name, cluster: { server, "certificate-authority": ca } }],
    users: [{ name, user: credentials }],
    contexts: [{ name, context: { cluster: name, user: name, namespace } }],
  });
  await writeFile(file, `${text}\n`, { mode: 0o600 });
  return file;
}
