import { appendFile, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type { KubernetesObject } from "../../../scripts/peers/cluster/api.ts";
import { type Registry, startRegistry } from "../../../scripts/peers/images/start-registry.ts";
import { showBundle } from "../../../scripts/peers/spire-api/bundle.ts";
import { facadeName } from "../kubernetes/cluster-platform.ts";
import type { TenantOptions } from "../kubernetes/tenant.ts";
import type { ClusterUnderTest } from "../kubernetes/use-cluster.ts";
import { createTestCa, issueLeaf } from "../test-pki.ts";
import { startForward } from "./forward.ts";
import { type RunningTokenService, startTokenService } from "./token-service.ts";
import type { ImagesUnderTest } from "./use-images.ts";

export type SiteOptions = {
  readonly images: ImagesUnderTest;
  readonly cluster: ClusterUnderTest;
  /** What jobs and BuildKit call the registry. */
  readonly name: string;
  /** Whose JWT-SVIDs it takes. */
  readonly admitted: string;
  readonly repositories: readonly string[];
};

/** What a job that publishes needs, as Pods of a cluster reach it. */
export type PublishSite = {
  readonly registry: Registry;
  readonly tokens: RunningTokenService;
  /** As BUILDKIT_HOST. */
  readonly buildkit: string;
  /** Of the tenant whose Pods are to know the registry by its name, and to trust it. */
  readonly pods: Pick<TenantOptions, "spec" | "container">;
  /** What `pods` mounts; each namespace has to have it. */
  readonly configMap: KubernetesObject;
};

const { signal } = new AbortController();
const trusted = "registry-authority";

/** Starts a registry with TLS that believes in JWT-SVIDs of the cluster's SPIRE; all of it goes with the stack. */
export async function startPublishSite(
  { images, cluster, name, admitted, repositories }: SiteOptions,
  stack: AsyncDisposableStack,
): Promise<PublishSite> {
  const { hostAddress: address, spire } = cluster.platform.kubernetes;
  const folder = path.join(images.folder, "site");
  await mkdir(folder);
  const { serverSocket, peers } = spire;
  const server = { serverBinary: peers.spireServer.binary, serverSocket };
  const bundle = await showBundle(server, "spiffe", signal);
  const signer = await createTestCa();
  const certificate = path.join(folder, "signer.pem");
  await writeFile(certificate, signer.pem);
  const tokens = stack.use(await startTokenService({ signer, bundle, admitted, repositories, address }));
  const { realm, service, issuer } = tokens;
  const program = images.parts.registry;
  const registry = stack.use(
    await startRegistry(
      { program, folder: path.join(folder, "registry"), tokens: { realm, service, issuer, certificate } },
      signal,
    ),
  );
  const { hosts, ca } = images.named;
  const leaf = await issueLeaf(ca, "", { uris: [], dnsNames: [name], extendedKeyUsage: ["serverAuth"] });
  const to = { host: "127.0.0.1", port: Number(new URL(registry.url).port) };
  stack.use(await startForward({ address, port: 443, to, leaf }));
  await appendFile(hosts, `\n${address} ${name}\n`);
  const socket = { path: new URL(images.buildkit.address).pathname };
  const { port } = stack.use(await startForward({ address, to: socket }));
  const hostAliases = cluster.platform.addresses.map((ip) => ({
    ip,
    hostnames: ip === address ? [facadeName, name] : [facadeName],
  }));
  const mountPath = `/etc/docker/certs.d/${name}`;
  return {
    registry,
    tokens,
    buildkit: `tcp://${address}:${port}`,
    pods: {
      spec: {
        hostAliases,
        volumes: [{ name: trusted, configMap: { name: trusted } }],
      },
      container: { volumeMounts: [{ name: trusted, mountPath }] },
    },
    configMap: {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: trusted },
      data: { "ca.crt": ca.pem },
    },
  };
}
