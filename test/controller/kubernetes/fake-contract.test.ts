import { describe } from "mocha";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createFakeKubernetes, type FakeKubernetes } from "../../fakes/fake-kubernetes.ts";
import { describeKubernetes } from "../../support/kubernetes-contract/describe-kubernetes.ts";
import type { KubernetesUnderTest } from "../../support/kubernetes-contract/under-test.ts";
import { startServedCluster } from "../../support/served-cluster.ts";

const namespace = "gitea-actions";

/** A cluster of the same objects in which nothing is allowed. */
function strangerTo(cluster: FakeKubernetes): KubernetesUnderTest["stranger"] {
  return {
    call: async (call, signal) => {
      cluster.deny({});
      try {
        return await cluster.api.call(call, signal);
      } finally {
        cluster.allowAll();
      }
    },
  };
}

describe("the fake API server, without a network", () => {
  describeKubernetes(() => {
    const clock = createFakeClock();
    const cluster = createFakeKubernetes(clock);
    return Promise.resolve({
      api: cluster.api,
      namespace,
      stranger: strangerTo(cluster),
      pass: (ms) => clock.step(ms),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    });
  });
});

describe("the fake API server over HTTPS", () => {
  describeKubernetes(async () => {
    const clock = createFakeClock();
    const cluster = createFakeKubernetes(clock);
    const served = await startServedCluster({}, cluster);
    return {
      api: served.api,
      namespace,
      stranger: strangerTo(cluster),
      pass: async (ms) => {
        await clock.waiting();
        await clock.step(ms);
      },
      [Symbol.asyncDispose]: () => served[Symbol.asyncDispose](),
    };
  });
});
