import path from "node:path";
import { after, before } from "mocha";
import {
  type LoneApiServer,
  startLoneApiServer,
} from "../../../scripts/peers/cluster/start-lone-api-server.ts";
import { spireCrds } from "../../../scripts/peers/cluster/spire-crds.ts";
import { sandboxDefinitions } from "../../../scripts/peers/opensandbox/definitions.ts";
import { findPeer } from "../../../scripts/peers/prepare-peer.ts";
import type { PeerName } from "../../../scripts/peers/peer.ts";
import { makeRunFolder } from "../../../scripts/quick-start/run-folder.ts";
import { skipFor } from "../needs-tools.ts";
import { playKubelet } from "./played-kubelet.ts";

/** What the platform needs of a cluster to be made there: no nodes, so its Pods are played. */
export type KubernetesUnderTest = Pick<LoneApiServer, "api" | "components" | "server" | "ca"> & {
  /** Variables with which the CLI finds it. */
  environment(): NodeJS.ProcessEnv;
};

/** In the KUBECONFIG. */
export const kubeContext = "cluster";
/** Of the OpenSandbox server; it is there before a stack is. */
export const poolNamespace = "opensandbox";

const startMs = 300_000;
const needed = ["etcd", "kube-apiserver", "kube-controller-manager"] as const;
const controllers = [
  "deployment-controller",
  "disruption-controller",
  "garbage-collector-controller",
  "namespace-controller",
  "replicaset-controller",
  "serviceaccount-controller",
];

/** Registers hooks that run an API server with controllers; the Pods of these namespaces are said to be ready. */
export function useKubernetes(podsOf: readonly string[]): KubernetesUnderTest {
  const stack = new AsyncDisposableStack();
  let started: LoneApiServer | undefined;
  const get = () => {
    if (started === undefined) throw new Error("the API server of this test is not started yet");
    return started;
  };
  before("start an API server with controllers", async function () {
    this.timeout(startMs);
    const signal = AbortSignal.timeout(startMs);
    const find = async (name: PeerName) =>
      (await findPeer(name, {}, signal)) ?? skipFor(this, `${name} is not built: npm run peers -- ${name}`);
    const [etcd, apiServer, peer] = await Promise.all(needed.map(find));
    if (etcd === undefined || apiServer === undefined || peer === undefined) return;
    const folder = await makeRunFolder();
    stack.defer(async () => void (await folder.remove()));
    started = stack.use(
      await startLoneApiServer(
        {
          folder: path.join(folder.path, "kubernetes"),
          etcd,
          apiServer,
          definitions: [...(await spireCrds(process.env, signal)), ...sandboxDefinitions],
          namespaces: [poolNamespace],
          controllers: { peer, names: controllers },
        },
        signal,
      ),
    );
    stack.use(playKubelet(started.api, podsOf));
  });
  after("stop them", async function () {
    this.timeout(300_000);
    await stack.disposeAsync();
  });
  return {
    get api() {
      return get().api;
    },
    get components() {
      return get().components;
    },
    get server() {
      return get().server;
    },
    get ca() {
      return get().ca;
    },
    environment: () => (started === undefined ? {} : { KUBECONFIG: started.kubeconfig }),
  };
}
