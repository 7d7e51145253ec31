import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import type { Json, JsonObject } from "../../../../controller/kubernetes/json.ts";
import {
  applyPodPatch,
  parsePodPatch,
  podManifest,
  PodPatchError,
} from "../../../../controller/backends/pod/pod-patch.ts";
import { executorPod } from "../../../../controller/backends/pod/pod-spec.ts";
import { protectedFields } from "../../../../controller/backends/pod/protected-fields.ts";
import { anExecutorRequest } from "../../../support/backend-contract.ts";
import { testStart } from "../../../support/builders.ts";
import { allPodSettings, podSettings } from "../../../support/pod.ts";

const pod = executorPod(anExecutorRequest("pod"), allPodSettings, testStart);

function refusal(text: string): string {
  try {
    parsePodPatch(text);
  } catch (error) {
    assert.ok(error instanceof PodPatchError, String(error));
    return error.message;
  }
  return assert.fail("the patch was accepted");
}

const inExecutor = (fields: string) => `spec: {containers: [{name: executor, ${fields}}]}`;
const socket = "/run/spire/agent-sockets";

/** A patch for each thing that the system relies on, and the field that the refusal names. */
const refused: readonly (readonly [string, string])[] = [
  ["kind: Deployment", "kind"],
  ["status: {}", "status"],
  ["metadata: {name: other}", "metadata.name"],
  ["metadata: {namespace: kube-system}", "metadata.namespace"],
  ["metadata: {finalizers: [example.org/keep]}", "metadata.finalizers"],
  ["metadata: {ownerReferences: []}", "metadata.ownerReferences"],
  ["metadata: {labels: {ci.ddupan.top/owner: other}}", "metadata.labels[ci.ddupan.top/owner]"],
  ["metadata: {labels: {ci.ddupan.top/terminal: 'true'}}", "metadata.labels[ci.ddupan.top/terminal]"],
  ["metadata: {labels: {ci.ddupan.top/nonce: null}}", "metadata.labels[ci.ddupan.top/nonce]"],
  ["metadata: {annotations: {ci.ddupan.top/trust: fork}}", "metadata.annotations[ci.ddupan.top/trust]"],
  ["spec: {restartPolicy: Always}", "spec.restartPolicy"],
  ["spec: {activeDeadlineSeconds: null}", "spec.activeDeadlineSeconds"],
  ["spec: {serviceAccountName: admin}", "spec.serviceAccountName"],
  ["spec: {serviceAccount: admin}", "spec.serviceAccount"],
  ["spec: {automountServiceAccountToken: true}", "spec.automountServiceAccountToken"],
  ["spec: {hostNetwork: true}", "spec.hostNetwork"],
  ["spec: {hostPID: true}", "spec.hostPID"],
  ["spec: {hostIPC: true}", "spec.hostIPC"],
  ["spec: {hostUsers: false}", "spec.hostUsers"],
  ["spec: {shareProcessNamespace: true}", "spec.shareProcessNamespace"],
  ["spec: {nodeName: node-1}", "spec.nodeName"],
  ["spec: {initContainers: [{name: executor}]}", "spec.initContainers[executor]"],
  [`spec: {volumes: [{name: spire-agent-socket, csi: {driver: x}}]}`, "spec.volumes[spire-agent-socket]"],
  [`spec: {volumes: [{name: docker-data, hostPath: {path: /}}]}`, "spec.volumes[docker-data]"],
  [`spec: {volumes: [{name: docker-data, emptyDir: null}]}`, "spec.volumes[docker-data]"],
  [
    "spec: {volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}",
    "spec.volumes[t].projected.sources.serviceAccountToken",
  ],
  [inExecutor("image: other"), "spec.containers[executor].image"],
  [inExecutor("command: [sh]"), "spec.containers[executor].command"],
  [inExecutor("args: [sh]"), "spec.containers[executor].args"],
  [inExecutor("terminationMessagePolicy: File"), "spec.containers[executor].terminationMessagePolicy"],
  [inExecutor("lifecycle: {postStart: {}}"), "spec.containers[executor].lifecycle"],
  [inExecutor("livenessProbe: {}"), "spec.containers[executor].livenessProbe"],
  [inExecutor("startupProbe: {}"), "spec.containers[executor].startupProbe"],
  [inExecutor("restartPolicy: Always"), "spec.containers[executor].restartPolicy"],
  [inExecutor("restartPolicyRules: []"), "spec.containers[executor].restartPolicyRules"],
  [
    inExecutor("securityContext: {privileged: false}"),
    "spec.containers[executor].securityContext.privileged",
  ],
  [inExecutor("securityContext: {runAsUser: 0}"), "spec.containers[executor].securityContext.runAsUser"],
  [
    inExecutor("securityContext: {allowPrivilegeEscalation: false}"),
    "spec.containers[executor].securityContext.allowPrivilegeEscalation",
  ],
  [
    inExecutor("env: [{name: CI_RUNNER_CAPABILITY, value: x}]"),
    "spec.containers[executor].env[CI_RUNNER_CAPABILITY]",
  ],
  [
    inExecutor("env: [{name: SPIFFE_ENDPOINT_SOCKET, value: x}]"),
    "spec.containers[executor].env[SPIFFE_ENDPOINT_SOCKET]",
  ],
  [inExecutor("env: null"), "spec.containers[executor].env[CI_ASSIGNMENT_ID]"],
  [
    inExecutor(`volumeMounts: [{mountPath: ${socket}, readOnly: false}]`),
    `spec.containers[executor].volumeMounts[${socket}]`,
  ],
  [
    inExecutor(`volumeMounts: [{mountPath: ${socket}/../agent-sockets/, name: x}]`),
    `spec.containers[executor].volumeMounts[${socket}/../agent-sockets/]`,
  ],
  [
    inExecutor("volumeMounts: [{mountPath: /var/lib/docker/overlay2, name: x}]"),
    "spec.containers[executor].volumeMounts[/var/lib/docker/overlay2]",
  ],
  [
    inExecutor("volumeMounts: [{mountPath: /elsewhere, name: spire-agent-socket}]"),
    "spec.containers[executor].volumeMounts[/elsewhere]",
  ],
  ["spec: {containers: null}", "spec.containers[executor]"],
  ["spec: null", "spec.restartPolicy"],
  ["metadata: null", "metadata.name"],
];

/** Of fields that are protected, hold such, or are neither. */
const specFields =
  "hostPID volumes containers initContainers nodeName nodeSelector tolerations priorityClassName restartPolicy";
const paths = [
  "kind",
  "metadata",
  "metadata.name",
  "metadata.labels",
  "metadata.annotations",
  "spec",
  ...specFields.split(" ").map((field) => `spec.${field}`),
];

/** What an operator may want, none of which the system relies on. */
const accepted: readonly string[] = [
  "{}",
  "spec: {priorityClassName: ci, schedulerName: own, terminationGracePeriodSeconds: 60}",
  "spec: {dnsConfig: {searches: [example.org]}, dnsPolicy: None, hostAliases: [{ip: 10.0.0.1}]}",
  "spec: {affinity: {nodeAffinity: {}}, topologySpreadConstraints: [{topologyKey: zone}]}",
  "spec: {securityContext: {fsGroup: 2000, supplementalGroups: [1]}}",
  "spec: {volumes: [{name: docker-data, emptyDir: {sizeLimit: 100Gi}}]}",
  "spec: {volumes: [{name: cache, persistentVolumeClaim: {claimName: cache}}]}",
  "spec: {initContainers: [{name: prepare, image: 'x:1'}], containers: [{name: helper, image: 'x:1'}]}",
  "metadata: {labels: {team: ci}, annotations: {sidecar.istio.io/inject: 'false'}}",
  "metadata: {annotations: {karpenter.sh/do-not-disrupt: null}}",
  inExecutor("resources: {limits: {cpu: '2', memory: null}}"),
  inExecutor("imagePullPolicy: Always, workingDir: /workspace, tty: true"),
  inExecutor("env: [{name: GITEA_RUNNER_CONFIG_FILE, value: /config/runner.yaml}, {name: CI, value: x}]"),
  inExecutor("envFrom: [{configMapRef: {name: proxy}}]"),
  inExecutor("volumeMounts: [{mountPath: /cache, name: cache}, {mountPath: /run, name: run}]"),
  inExecutor("securityContext: {seccompProfile: {type: Unconfined}}"),
];

describe("a patch of Pods", () => {
  for (const [text, field] of refused)
    it(`may not say ${text}`, () => {
      const fields = refusal(text).split(", ");
      assert.ok(fields.includes(`${field}: the system relies on it`), fields.join("\n"));
    });

  for (const text of accepted)
    it(`may say ${text}`, () => {
      const patched = applyPodPatch(pod, parsePodPatch(text));
      assert.deepEqual(protectedFields(patched), protectedFields(pod));
    });

  it("may be the one that the README shows", async () => {
    const readme = new URL("../../../../controller/backends/pod/README.md", import.meta.url);
    const [, example = ""] = /```yaml\n(.*?)```/s.exec(await readFile(readme, "utf8")) ?? [];
    assert.ok("spec" in parsePodPatch(example));
  });

  it("is found in the Pod that is created", () => {
    const patch = parsePodPatch(inExecutor("resources: {limits: {memory: 1Gi}}"));
    const manifest = podManifest(anExecutorRequest("pod"), { ...podSettings(), patch }, testStart);
    const { containers } = manifest["spec"] as JsonObject;
    assert.deepEqual((containers as readonly JsonObject[])[0]?.["resources"], {
      limits: { memory: "1Gi" },
    });
  });

  it("is read from JSON as well, and has an effect over what is configured", () => {
    const patch = parsePodPatch('{"spec": {"runtimeClassName": "other"}}');
    assert.equal((applyPodPatch(pod, patch)["spec"] as JsonObject)["runtimeClassName"], "other");
  });

  it("is refused with all that is wrong with it", () => {
    const message = refusal("{status: {}, spec: {hostPID: true, $patch: replace, tolerations: {}}}");
    assert.deepEqual(message.split(", "), [
      "spec.$patch: directives are not supported",
      "spec.tolerations: it is not a map in a Pod",
      "spec.hostPID: the system relies on it",
      "status: the system relies on it",
    ]);
  });

  for (const text of ["", "12", "- spec", "spec: {", "a: b: c", "a: .nan", "a: &a [*a]", "the-secret"])
    it(`is refused as ${JSON.stringify(text)}, and not quoted`, () => {
      assert.match(refusal(text), /^it is (neither YAML nor JSON|not a map, as in spec: \{…\})$/);
    });

  const anyPatch: fc.Arbitrary<JsonObject> = fc
    .array(
      fc.record({
        path: fc.constantFrom(...paths),
        value: fc.oneof(
          fc.constantFrom<Json>(null, true, "x", "Never", [], {}),
          fc.dictionary(
            fc.constantFrom("ci.ddupan.top/owner", "ci.ddupan.top/more", "team", "$patch", "name"),
            fc.constantFrom<Json>("x", null, {}),
          ),
          fc.array(
            fc.record(
              {
                name: fc.constantFrom<Json>("executor", "docker-data", "spire-agent-socket", "own", 7),
                image: fc.constantFrom<Json>("x", null),
                csi: fc.constantFrom<Json>({ driver: "csi.spiffe.io" }, null),
                emptyDir: fc.constantFrom<Json>({ sizeLimit: "1Gi" }, {}, null, "x"),
                securityContext: fc.constantFrom<Json>({ privileged: true }, { runAsUser: 0 }, null),
                env: fc.constantFrom<Json>([{ name: "CI_BACKEND", value: "vm" }], [], null),
                volumeMounts: fc.constantFrom<Json>([{ mountPath: `${socket}/x`, name: "own" }], []),
              },
              { requiredKeys: [] },
            ),
            { maxLength: 3 },
          ),
        ),
      }),
      { maxLength: 4 },
    )
    .map((parts) =>
      parts.reduce<JsonObject>((patch, { path, value }) => withField(patch, path.split("."), value), {}),
    );

  it("is refused, or leaves everything as it was that the system relies on", () => {
    let taken = 0;
    fc.assert(
      fc.property(anyPatch, (patch) => {
        const before = structuredClone(pod);
        try {
          const patched = applyPodPatch(pod, patch);
          assert.deepEqual(protectedFields(patched), protectedFields(pod));
          taken++;
        } catch (error) {
          assert.ok(error instanceof PodPatchError, String(error));
          assert.match(error.message, /^\S+: /);
        }
        assert.deepEqual(pod, before);
      }),
      { numRuns: 1000 },
    );
    assert.ok(taken > 50, `only ${taken} were taken`);
  });

  it("protects a Pod of whatever form", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (metadata, spec) => {
        protectedFields({ metadata: metadata as Json, spec: spec as Json });
      }),
    );
  });
});

function withField(patch: JsonObject, [key = "", ...rest]: readonly string[], value: Json): JsonObject {
  const inside = patch[key];
  if (rest.length === 0) return { ...patch, [key]: value };
  const map = typeof inside === "object" && inside !== null && !Array.isArray(inside) ? inside : {};
  return { ...patch, [key]: withField(map as JsonObject, rest, value) };
}
