import assert from "node:assert/strict";
import { after, before, describe, it } from "mocha";
import { ApiRefusal, type KubernetesApi } from "../../controller/kubernetes/kubernetes-api.ts";
import { permissionsOf } from "../../controller/kubernetes/permissions.ts";
import { eventually } from "../support/eventually.ts";
import { accountApi } from "../support/infra/account-api.ts";
import { useClusterStacks } from "../support/infra/use-cluster-stacks.ts";

const own = "gitea-dynamic-runner";
const executors = "gitea-actions";
const { signal } = new AbortController();
const entries = "/apis/spire.spiffe.io/v1alpha1/clusterstaticentries";
const owner = "00000000-0000-4000-8000-000000000001";

type Rule = {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
};

/** One by one, as in `apps/deployments/get`. */
function oneByOne(rules: readonly Rule[]): readonly string[] {
  return rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) => verbs.map((verb) => `${group}/${resource}/${verb}`)),
    ),
  );
}

describe("the rights that Pulumi has given, as a real API server goes by them", () => {
  const stacks = useClusterStacks();
  let api: KubernetesApi;
  const wanted = permissionsOf({ controllerNamespace: own, podNamespace: executors });

  /** What the controller needs in a namespace, of what is asked for there and in the whole cluster. */
  const neededIn = (namespace: string | undefined) =>
    oneByOne(
      wanted
        .filter((one) => one.namespace === undefined || one.namespace === namespace)
        .map(({ group, resource, verbs }) => ({ apiGroups: [group], resources: [resource], verbs })),
    );
  const rulesOf = async (as: KubernetesApi, namespace: string): Promise<readonly string[]> => {
    const review = await as.call(
      {
        method: "POST",
        path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        body: {
          apiVersion: "authorization.k8s.io/v1",
          kind: "SelfSubjectRulesReview",
          spec: { namespace },
        },
      },
      signal,
    );
    const { status } = review as { readonly status: { readonly resourceRules: readonly Rule[] } };
    return oneByOne(status.resourceRules);
  };

  before("bring prod up", async function () {
    this.timeout(600_000);
    await stacks.prod.done("up", "--yes");
    api = await accountApi(stacks.kubernetes, { namespace: own, name: own });
  });
  after("close", () => api.close());

  for (const namespace of [own, executors, "default", "kube-system"])
    it(`B-103 are exactly what the controller asks for, in namespace ${namespace}`, async () => {
      const nobody = await accountApi(stacks.kubernetes, { namespace: executors, name: "default" });
      try {
        // Everybody may ask who he is and what he may.
        const everybody = new Set(await rulesOf(nobody, namespace));
        const more = (await rulesOf(api, namespace)).filter((one) => !everybody.has(one));
        assert.deepEqual(more.toSorted(), neededIn(namespace).toSorted());
      } finally {
        nobody.close();
      }
    });

  it("B-103 are those and no others when the server is asked verb by verb", async () => {
    const verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    const resources = [
      ...wanted.map(({ group, resource }) => ({ group, resource })),
      ...["secrets", "configmaps", "serviceaccounts", "namespaces", "pods/exec", "pods/log"].map(
        (resource) => ({ group: "", resource }),
      ),
      { group: "rbac.authorization.k8s.io", resource: "roles" },
      { group: "spire.spiffe.io", resource: "clusterspiffeids" },
    ];
    const known = [...new Set(resources.map((one) => JSON.stringify(one)))];
    const allowed: string[] = [];
    const needed: string[] = [];
    for (const namespace of [own, executors, "default", undefined])
      for (const text of known) {
        const one = JSON.parse(text) as { readonly group: string; readonly resource: string };
        for (const verb of verbs) {
          const name = `${one.group}/${one.resource}/${verb}`;
          if (neededIn(namespace).includes(name)) needed.push(`${namespace ?? "*"} ${name}`);
          const [resource, subresource] = one.resource.split("/");
          const attributes = { group: one.group, resource, subresource, verb, namespace };
          if (await isAllowed(attributes)) allowed.push(`${namespace ?? "*"} ${name}`);
        }
      }
    assert.deepEqual(allowed, needed);
  });

  const isAllowed = async (resourceAttributes: object): Promise<boolean> => {
    const review = {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      spec: {
        user: `system:serviceaccount:${own}:${own}`,
        groups: ["system:serviceaccounts", `system:serviceaccounts:${own}`, "system:authenticated"],
        resourceAttributes,
      },
    };
    const path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    const { status } = await stacks.kubernetes.api.create(path, review, signal);
    return (status as { readonly allowed: boolean }).allowed;
  };

  describe("to register identities", () => {
    const entry = (spec: object = {}, labels: object = { "ci.ddupan.top/owner": owner }) => ({
      apiVersion: "spire.spiffe.io/v1alpha1",
      kind: "ClusterStaticEntry",
      metadata: { name: "tried", labels },
      spec: {
        className: "spire-mgmt-spire",
        spiffeID: "spiffe://ddupan.top/ci/demo/tool/build",
        parentID: "spiffe://ddupan.top/spire/agent/k8s_psat/homelab/0b6c2d9e-7f7f-4c0a-9df6-0f6ad4e1a111",
        selectors: [
          "k8s:pod-uid:0b6c2d9e-7f7f-4c0a-9df6-0f6ad4e1a222",
          "k8s:container-name:executor",
          "unix:uid:2000",
        ],
        ...spec,
      },
    });
    const refusal = async (body: object): Promise<string | undefined> => {
      try {
        await api.call({ method: "POST", path: entries, body, query: { dryRun: "All" } }, signal);
        return undefined;
      } catch (error) {
        assert.ok(error instanceof ApiRefusal, String(error));
        return error.message;
      }
    };
    before("wait until the policy is in force", () =>
      eventually("it is enforced", async () =>
        /no administrator/.test((await refusal(entry({ admin: true }))) ?? "it passed"),
      ),
    );

    it("B-101 end with those of executors", async () => {
      assert.equal(await refusal(entry()), undefined);
      for (const [body, words] of [
        [entry({ admin: true }), /no administrator/],
        [entry({ spiffeID: "spiffe://ddupan.top/gitea-dynamic-runner" }), /not that of a job/],
        [entry({ className: "other" }), /the class is not/],
        [entry({ parentID: "spiffe://ddupan.top/spire/server" }), /not the agent of a node/],
        [entry({ selectors: ["unix:uid:2000"] }), /the selectors/],
        [entry({}, { "ci.ddupan.top/owner": "somebody-else" }), /not of this runner/],
        [entry({}, {}), /not of this runner/],
      ] as const)
        assert.match((await refusal(body)) ?? "it passed", words);
    });

    it("B-101 do not reach entries of others, and nobody else is confined by it", async () => {
      const others = { ...entry({ admin: true }, {}), metadata: { name: "others" } };
      await stacks.kubernetes.api.create(entries, others, signal);
      const removed = api.call({ method: "DELETE", path: `${entries}/others` }, signal);
      await assert.rejects(removed, /not of this runner/);
      await stacks.kubernetes.api.remove(`${entries}/others`, signal);
    });
  });
});
