import { after, before, describe } from "mocha";
import { executorNamespace } from "../../scripts/peers/cluster/objects.ts";
import { findCluster } from "../../controller/kubernetes/find-cluster.ts";
import { createHttpsApi } from "../../controller/kubernetes/https-api.ts";
import type { KubernetesApi } from "../../controller/kubernetes/kubernetes-api.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { useCluster } from "../support/cluster.ts";
import { describeKubernetes } from "../support/kubernetes-contract/describe-kubernetes.ts";

const { signal } = new AbortController();

/** A service account that nobody has given any right. */
const stranger = { namespace: "default", name: "default" };

describe("a real API server", () => {
  const real = useCluster({ trustDomain: "example.org" });
  let api: KubernetesApi;
  let strangers: KubernetesApi;
  const by = async (kubeconfig: string) =>
    createHttpsApi({
      cluster: await findCluster({ KUBECONFIG: kubeconfig }, systemClock, signal),
      clock: systemClock,
    });
  before("open two clients", async () => {
    api = await by(real.cluster.adminKubeconfig);
    strangers = await by(await real.cluster.kubeconfigFor(stranger, signal));
  });
  after(() => {
    api.close();
    strangers.close();
  });

  describeKubernetes(() =>
    Promise.resolve({
      api,
      namespace: executorNamespace,
      stranger: strangers,
      pass: (ms) => systemClock.sleep(ms, signal),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }),
  );
});
