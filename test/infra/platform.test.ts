import assert from "node:assert/strict";
import { secret } from "@pulumi/pulumi";
import { before, describe, it } from "mocha";
import { readConfig } from "../../controller/config.ts";
import { permissionsOf } from "../../controller/kubernetes/permissions.ts";
import { defaultStreamTimes, wantedStreams } from "../../controller/queue/streams.ts";
import { consumerKind } from "../../infra/jetstream/consumer-kind.ts";
import { streamKind } from "../../infra/jetstream/stream-kind.ts";
import { rightsOf } from "../../infra/rights.ts";
import { one, type Registered, registeredBy, withoutSecrets } from "../support/infra/mock-engine.ts";
import { devSettings, stackSettings } from "../support/infra/stack-settings.ts";

type Json = Readonly<Record<string, unknown>>;

describe("platform", () => {
  const secrets = {
    giteaRunnerToken: "planted-token",
    natsPassword: "planted-password",
    capabilityKeys: "planted-keys-of-at-least-32-characters",
    openSandboxApiKey: "planted-api-key",
  };
  const marked = Object.fromEntries(Object.entries(secrets).map(([name, value]) => [name, secret(value)]));
  let prod: readonly Registered[];
  let dev: readonly Registered[];
  before(async () => {
    prod = await registeredBy(stackSettings({ protect: true }), marked);
    dev = await registeredBy(devSettings(), marked);
  });

  /** A value by its path, as in `spec.template.spec`. */
  const at = (from: Json, path: string): unknown =>
    path.split(".").reduce<unknown>((value, key) => (value as Json)[key], from);

  it("B-100 makes the streams and consumers that the controller wants", () => {
    const wanted = wantedStreams({
      stream: "CI_RUNNER",
      subjectBase: "ci.assignment",
      capacity: { pod: 4, vm: 1 },
      times: defaultStreamTimes,
    });
    const queue = streamKind.inputs.parse(one(prod, "jetstream:index:Stream", "assignments"));
    assert.equal(queue.name, wanted.queue.name);
    assert.deepEqual(queue.subjects, wanted.queue.subjects);
    assert.deepEqual(
      [
        queue.retention,
        queue.discard,
        queue.storage,
        queue.maxAgeSeconds,
        queue.duplicateWindowSeconds * 1e9,
      ],
      [wanted.queue.retention, wanted.queue.discard, wanted.queue.storage, 0, wanted.queue.duplicate_window],
    );
    const events = streamKind.inputs.parse(one(prod, "jetstream:index:Stream", "events"));
    assert.deepEqual(
      [events.name, events.subjects, events.maxAgeSeconds * 1e9],
      [wanted.events.name, wanted.events.subjects, wanted.events.max_age],
    );
    for (const consumer of wanted.consumers) {
      const made = consumerKind.inputs.parse(one(prod, "jetstream:index:Consumer", consumer.durable_name));
      assert.deepEqual(
        [made.filterSubject, made.ackWaitSeconds * 1e9, made.maxDeliver, made.maxAckPending, made.ackPolicy],
        [
          consumer.filter_subject,
          consumer.ack_wait,
          consumer.max_deliver,
          consumer.max_ack_pending,
          consumer.ack_policy,
        ],
      );
    }
    assert.equal(`KV_${String(one(prod, "jetstream:index:KeyValue")["bucket"])}`, wanted.state.name);
  });

  it("B-101 gives the controller's Pods their identity, and confines what they may register", () => {
    const identity = one(prod, "kubernetes:spire.spiffe.io/v1alpha1:ClusterSPIFFEID");
    assert.equal(at(identity, "spec.spiffeIDTemplate"), "spiffe://example.org/gitea-dynamic-runner");
    assert.equal(at(identity, "spec.className"), "spire-mgmt-spire");
    const pods = at(one(prod, "kubernetes:apps/v1:Deployment"), "spec.template.metadata.labels");
    assert.deepEqual(at(identity, "spec.podSelector.matchLabels"), pods);
    const policy = JSON.stringify(
      one(prod, "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy"),
    );
    assert.match(policy, /system:serviceaccount:gitea-dynamic-runner:gitea-dynamic-runner/);
    assert.match(policy, /8a1d5c1e-5b0b-4e0b-9a53-0d3f0a3b8f11/);
  });

  it("B-102 makes the pool of VMs, none for Pods", () => {
    const pool = one(prod, "kubernetes:sandbox.opensandbox.io/v1alpha1:Pool");
    assert.equal(at(pool, "metadata.name"), "ci-vm");
    assert.equal(at(pool, "metadata.namespace"), "opensandbox");
    const template = at(pool, "spec.template.spec") as Json;
    assert.equal(template["runtimeClassName"], "kata-clh-runtime-rs");
    assert.equal(template["restartPolicy"], "Never");
    assert.equal(template["automountServiceAccountToken"], false);
    const [container] = template["containers"] as readonly Json[];
    const [installer] = template["initContainers"] as readonly Json[];
    assert.deepEqual(container?.["command"], ["/usr/bin/tini", "--", "/opt/task-executor/task-executor"]);
    assert.deepEqual(container?.["volumeMounts"], installer?.["volumeMounts"]);
    assert.equal(installer?.["image"], "registry.example.org/opensandbox/task-executor:v0.1.0");
    assert.equal(at(pool, "spec.recycleStrategy.type"), "Delete");
    assert.equal(at(pool, "spec.scaleStrategy.maxUnavailable"), "100%");
  });

  it("B-102 has in each VM what the stack wants there besides, as an agent", async () => {
    const agent = { name: "agent", image: "registry.example.org/spire-agent:1.13.3" };
    const pool = { template: { containers: [agent], shareProcessNamespace: true } };
    const stack = await registeredBy(
      stackSettings({ vm: { ...(stackSettings()["vm"] as object), pool } }),
      marked,
    );
    const spec = at(one(stack, "kubernetes:sandbox.opensandbox.io/v1alpha1:Pool"), "spec.template.spec");
    const { containers, shareProcessNamespace, restartPolicy } = spec as Json;
    assert.deepEqual((containers as readonly Json[]).at(-1), agent);
    assert.deepEqual([shareProcessNamespace, restartPolicy], [true, "Never"]);
  });

  for (const [withPods, withEntries] of [
    [true, true],
    [false, true],
    [false, false],
  ] as const)
    it(`B-103 allows exactly what the controller asks for, with Pods ${withPods} and entries ${withEntries}`, () => {
      const asked = permissionsOf({
        controllerNamespace: "own",
        podNamespace: withPods ? "executors" : undefined,
        guestAgents: withEntries,
      });
      const { own, executors, cluster } = rightsOf({ withPods, withEntries });
      const given = Object.entries({ own, executors, "": cluster }).flatMap(([namespace, rules]) =>
        rules.flatMap(({ apiGroups, resources, verbs }) =>
          verbs.map((verb) => [namespace, apiGroups[0], resources[0], verb].join("/")),
        ),
      );
      const needed = asked.flatMap(({ namespace = "", group, resource, verbs }) =>
        verbs.map((verb) => [namespace, group, resource, verb].join("/")),
      );
      assert.deepEqual(new Set(given), new Set(needed));
    });

  it("B-104 B-105 runs what the publish workflows made, by digest, as a user without rights", () => {
    const deployment = one(prod, "kubernetes:apps/v1:Deployment");
    const pod = at(deployment, "spec.template.spec") as Json;
    const [container] = pod["containers"] as readonly Json[];
    assert.ok(container);
    assert.equal(container["image"], `registry.example.org/ci/controller@sha256:${"a".repeat(64)}`);
    assert.equal(at(deployment, "spec.replicas"), 2);
    assert.equal(pod["terminationGracePeriodSeconds"], 90);
    assert.equal(at(pod, "securityContext.runAsNonRoot"), true);
    assert.deepEqual(container["securityContext"], {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    const service = one(prod, "kubernetes:core/v1:Service");
    assert.equal(at(service, "spec.clusterIP"), "None");
    assert.equal(at(service, "spec.publishNotReadyAddresses"), true);
  });

  it("B-104 builds both images where the stack says so, and names them by what was pushed", async () => {
    const images = { source: "build", pushRegistry: "push.example.org", pullRegistry: "pull.example.org" };
    const built = await registeredBy(stackSettings({ images }), marked);
    const image = one(built, "docker-build:index:Image", "controller");
    assert.deepEqual(image["tags"], ["push.example.org/gitea-dynamic-runner/controller:latest"]);
    assert.equal(at(image, "buildArgs.BUILDKIT_ATTEST_PROVENANCE"), "mode=max");
    assert.match(String(at(image, "buildArgs.BUILDKIT_ATTEST_SBOM")), /^generator=/);
    const pod = at(one(built, "kubernetes:apps/v1:Deployment"), "spec.template.spec") as Json;
    assert.equal(
      (pod["containers"] as readonly Json[])[0]?.["image"],
      `pull.example.org/gitea-dynamic-runner/controller@sha256:${"b".repeat(64)}`,
    );
  });

  it("B-106 takes no tag off another stack's images", async () => {
    const images = { source: "build", pullRegistry: "pull.example.org" };
    const built = await registeredBy(devSettings({ images }), marked);
    const { tags } = one(built, "docker-build:index:Image", "runner");
    assert.deepEqual(tags, ["pull.example.org/gitea-dynamic-runner/runner:dev"]);
  });

  it("hands a builder the authority that npm's packages come through, as a secret of the build", async () => {
    const ca = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    const images = { source: "build", pullRegistry: "pull.example.org", ca, builder: "lab" };
    const built = await registeredBy(stackSettings({ images }), marked);
    const image = one(built, "docker-build:index:Image", "controller");
    assert.match(JSON.stringify(image["secrets"]), /"extra_ca":"-----BEGIN CERTIFICATE-----\\nMIIB/);
    assert.deepEqual(image["builder"], { name: "lab" });
    assert.doesNotMatch(JSON.stringify(image["buildArgs"]), /CERTIFICATE/);
  });

  it("configures a controller exactly as it was provisioned", () => {
    for (const [stack, vmLabel, stream, namespace] of [
      [prod, "vm", "CI_RUNNER", "gitea-dynamic-runner"],
      [dev, "vm-dev", "CI_RUNNER_DEV", "gitea-dynamic-runner-dev"],
    ] as const) {
      const data = one(stack, "kubernetes:core/v1:ConfigMap")["data"] as Record<string, string>;
      const config = readConfig({ ...data, HOSTNAME: "controller-0" }, (path) =>
        path.endsWith("keys") ? secrets.capabilityKeys : "content",
      );
      assert.equal(config.vmLabel, vmLabel);
      assert.equal(config.nats.stream, stream);
      assert.equal(config.lease?.namespace, namespace);
      assert.equal(config.nodeEnv, "production");
      const facade = new URL(config.facade.url);
      assert.equal(facade.hostname, `runner-facade.${namespace}.svc`);
      assert.equal(
        config.facade.spiffeId,
        at(one(stack, "kubernetes:spire.spiffe.io/v1alpha1:ClusterSPIFFEID"), "spec.spiffeIDTemplate"),
      );
    }
  });

  it("gives the controller the authority of an OpenSandbox server that has one of its own", async () => {
    const vm = {
      ...(stackSettings()["vm"] as object),
      api: "https://opensandbox.example.org",
      ca: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    };
    const stack = await registeredBy(stackSettings({ vm }), marked);
    const data = one(stack, "kubernetes:core/v1:ConfigMap")["data"] as Record<string, string>;
    assert.equal(data["OPENSANDBOX_CA_FILE"], "/etc/runner/secrets/opensandbox-ca.pem");
    const files = stack.flatMap(({ type, inputs }) => (type === "kubernetes:core/v1:Secret" ? [inputs] : []));
    assert.match(JSON.stringify(files), /opensandbox-ca\.pem/);
  });

  it("B-106 lets prod and dev live side by side: no object of one is one of the other", () => {
    const objects = (stack: readonly Registered[]) =>
      stack
        .filter(({ type }) => !type.startsWith("pulumi:"))
        .map(({ type, inputs }) => {
          const { namespace, name } = (inputs["metadata"] ?? {}) as Json;
          const { bucket, stream, durable, name: own } = inputs;
          return JSON.stringify([type, namespace, name, bucket, stream, durable, own]);
        });
    const [ofProd, ofDev] = [new Set(objects(prod)), new Set(objects(dev))];
    assert.equal(ofProd.size, prod.length - 2);
    assert.deepEqual(
      [...ofDev].filter((object) => ofProd.has(object)),
      [],
    );
    const subjects = (stack: readonly Registered[]) =>
      one(stack, "jetstream:index:Stream", "assignments")["subjects"];
    assert.deepEqual([subjects(prod), subjects(dev)], [["ci.assignment.*"], ["ci-dev.assignment.*"]]);
    const data = one(dev, "kubernetes:core/v1:ConfigMap")["data"] as Record<string, string>;
    assert.deepEqual([data["COMPONENTS"], data["OPENSANDBOX_POOL"]], ["scheduler,vm-worker", "ci-vm-dev"]);
    assert.ok(!dev.some(({ type }) => type.endsWith(":ValidatingAdmissionPolicy")));
  });

  it("takes back what somebody changed by hand, of every object in the cluster", () => {
    const objects = [...prod, ...dev].filter(({ type }) => type.startsWith("kubernetes:"));
    for (const { type, name, inputs } of objects)
      assert.deepEqual(
        at(inputs, "metadata.annotations"),
        { "pulumi.com/patchForce": "true" },
        `${type} ${name}`,
      );
  });

  it("shows no secret anywhere but where it is used, and there marked as one", () => {
    for (const stack of [prod, dev]) {
      for (const { type, name, inputs } of stack)
        assert.doesNotMatch(withoutSecrets(inputs), /planted/, `${type} ${name}`);
      const users = stack.filter(({ inputs }) => JSON.stringify(inputs).includes("planted"));
      assert.deepEqual(
        new Set(users.map(({ type }) => type)),
        new Set(["pulumi:providers:jetstream", "kubernetes:core/v1:Secret"]),
      );
    }
  });

  it("gives the controller no secret that it has no use for", async () => {
    const stack = await registeredBy(stackSettings({ components: ["scheduler", "pod-worker"] }), marked);
    assert.doesNotMatch(JSON.stringify(stack), /planted-api-key/);
  });

  it("starts the controller anew when a secret or a setting changes, and only then", async () => {
    const path = "spec.template.metadata.annotations";
    const hash = (stack: readonly Registered[]) =>
      JSON.stringify(at(one(stack, "kubernetes:apps/v1:Deployment"), path));
    const same = await registeredBy(stackSettings(), marked);
    const other = await registeredBy(stackSettings(), { ...marked, natsPassword: secret("another") });
    const larger = await registeredBy(stackSettings({ pod: { capacity: 5 } }), marked);
    assert.equal(hash(same), hash(prod));
    assert.equal(new Set([same, other, larger].map(hash)).size, 3);
  });

  it("keeps the controller off the nodes of executors", async () => {
    const nodes = { "example.org/ci": "pods", zone: "a" };
    const vm = { ...(stackSettings()["vm"] as object), pool: { nodeSelector: { "example.org/ci": "vms" } } };
    const stack = await registeredBy(stackSettings({ pod: { nodeSelector: nodes }, vm }), marked);
    const pod = at(one(stack, "kubernetes:apps/v1:Deployment"), "spec.template.spec") as Json;
    const required = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    const not = (key: string, value: string) => ({ key, operator: "NotIn", values: [value] });
    assert.deepEqual(at(pod, required), [
      { matchExpressions: [not("example.org/ci", "pods"), not("example.org/ci", "vms")] },
      { matchExpressions: [not("zone", "a"), not("example.org/ci", "vms")] },
    ]);
  });

  it("lets executors reach the facade, names and the internet, and nothing of the inside but what is allowed", async () => {
    const network = { allowed: [{ cidr: "10.1.2.3/32", ports: [443] }] };
    const stack = await registeredBy(stackSettings({ network }), marked);
    const policy = one(stack, "kubernetes:networking.k8s.io/v1:NetworkPolicy", "executors");
    const egress = at(policy, "spec.egress") as readonly Json[];
    assert.equal(egress.length, 4);
    const open = egress.filter((rule) => JSON.stringify(rule).includes("0.0.0.0/0"));
    assert.equal(open.length, 1);
    assert.match(JSON.stringify(open), /169\.254\.0\.0\/16/);
    assert.deepEqual(egress[3], {
      to: [{ ipBlock: { cidr: "10.1.2.3/32" } }],
      ports: [{ protocol: "TCP", port: 443 }],
    });
    assert.deepEqual(at(policy, "spec.ingress"), []);
  });

  it("lets VMs reach no more than Pods, and OpenSandbox's controller alone reach VMs", async () => {
    const vm = { ...(stackSettings()["vm"] as object), controllerNamespace: "opensandbox-system" };
    const stack = await registeredBy(stackSettings({ vm }), marked);
    const policies = "kubernetes:networking.k8s.io/v1:NetworkPolicy";
    const ofVms = one(stack, policies, "vms");
    assert.deepEqual(
      [at(ofVms, "metadata.namespace"), at(ofVms, "metadata.name"), at(ofVms, "spec.podSelector")],
      ["opensandbox", "ci-vm", { matchLabels: { "sandbox.opensandbox.io/pool-name": "ci-vm" } }],
    );
    assert.deepEqual(at(ofVms, "spec.egress"), at(one(stack, policies, "executors"), "spec.egress"));
    assert.deepEqual(at(ofVms, "spec.ingress"), [
      {
        from: [
          { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "opensandbox-system" } } },
        ],
        ports: [{ protocol: "TCP", port: 5758 }],
      },
    ]);
    // Where nobody says who that is, nobody is kept out.
    assert.deepEqual(at(one(prod, policies, "vms"), "spec.policyTypes"), ["Egress"]);
    const withoutVms = await registeredBy(stackSettings({ components: ["scheduler", "pod-worker"] }), marked);
    assert.ok(!withoutVms.some(({ type, name }) => type === policies && name === "vms"));
  });

  it("makes neither VMs nor a controller before the policies that confine executors", () => {
    const place = (type: string, name: string) => {
      const found = prod.findIndex((each) => each.type === `kubernetes:${type}` && each.name === name);
      assert.notEqual(found, -1, `${type} ${name}`);
      return found;
    };
    for (const policy of ["executors", "vms"])
      for (const made of [
        place("sandbox.opensandbox.io/v1alpha1:Pool", "pool"),
        place("apps/v1:Deployment", "controller"),
      ])
        assert.ok(place("networking.k8s.io/v1:NetworkPolicy", policy) < made, policy);
  });

  it("keeps executors from metadata addresses whatever the internal networks are said to be", async () => {
    const stack = await registeredBy(stackSettings({ network: { internal: ["10.0.0.0/8"] } }), marked);
    const policy = JSON.stringify(one(stack, "kubernetes:networking.k8s.io/v1:NetworkPolicy", "executors"));
    assert.match(policy, /"except":\["10\.0\.0\.0\/8","169\.254\.0\.0\/16"\]/);
  });

  it("lets executors ask a resolver that is allowed by its address, by UDP as well", async () => {
    const network = { allowed: [{ cidr: "169.254.20.10/32", ports: [53, 443] }] };
    const stack = await registeredBy(stackSettings({ network }), marked);
    const policy = one(stack, "kubernetes:networking.k8s.io/v1:NetworkPolicy", "executors");
    const [allowed] = (at(policy, "spec.egress") as readonly Json[]).slice(3);
    assert.deepEqual(allowed?.["ports"], [
      { protocol: "TCP", port: 53 },
      { protocol: "UDP", port: 53 },
      { protocol: "TCP", port: 443 },
    ]);
  });
});
