import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "mocha";
import { parse } from "yaml";
import { isJsonObject, type Json, type JsonObject } from "../../../../controller/kubernetes/json.ts";
import { podManifest } from "../../../../controller/backends/pod/pod-patch.ts";
import { executorPod } from "../../../../controller/backends/pod/pod-spec.ts";
import { anExecutorRequest } from "../../../support/backend-contract.ts";
import { anAttempt, testStart } from "../../../support/builders.ts";
import { allPodSettings, podSettings } from "../../../support/pod.ts";

const golden = new URL("../../../fixtures/pod-manifest/pod.yaml", import.meta.url);
const hour = 3_600_000;

function aRequest(overrides: Parameters<typeof anExecutorRequest>[1] = {}, deadlineAt = testStart + hour) {
  return { ...anExecutorRequest("pod", overrides), deadlineAt };
}

function specOf(pod: JsonObject): JsonObject {
  const { spec } = pod;
  assert.ok(isJsonObject(spec));
  return spec;
}

/** Every key and every text that is anywhere in it. */
function words(value: Json): readonly string[] {
  if (Array.isArray(value)) return (value as readonly Json[]).flatMap(words);
  if (isJsonObject(value)) return Object.entries(value).flatMap(([key, inside]) => [key, ...words(inside)]);
  return typeof value === "string" ? [value] : [];
}

describe("the Pod of an executor", () => {
  it("B-50 is this one", async () => {
    const wanted: unknown = parse(await readFile(golden, "utf8"));
    assert.deepEqual(podManifest(aRequest(), allPodSettings, testStart), wanted);
  });

  it("B-50 has only what it needs where nothing is set", () => {
    const { containers, ...spec } = specOf(podManifest(aRequest(), podSettings(), testStart));
    assert.ok(Array.isArray(containers));
    assert.deepEqual(Object.keys(spec).toSorted(), [
      "activeDeadlineSeconds",
      "automountServiceAccountToken",
      "enableServiceLinks",
      "hostIPC",
      "hostNetwork",
      "hostPID",
      "restartPolicy",
      "serviceAccountName",
      "volumes",
    ]);
    const [container] = containers as readonly JsonObject[];
    assert.ok(container !== undefined && !("resources" in container));
  });

  it("B-75 holds one secret, the capability, and no other way to a credential", () => {
    const { metadata, environment, deadlineAt } = aRequest();
    const pod = podManifest({ metadata, environment, deadlineAt }, allPodSettings, testStart);
    const secrets = words(pod).filter((word) => /token|secret|password|credential|key\b/i.test(word));
    assert.deepEqual(secrets.toSorted(), [
      "automountServiceAccountToken",
      "ci.ddupan.top/job-key",
      "imagePullSecrets",
      "key",
    ]);
    assert.deepEqual(
      words(pod).filter((word) => word.includes(environment.CI_RUNNER_CAPABILITY)),
      [environment.CI_RUNNER_CAPABILITY],
    );
  });

  it("differs in nothing but the attempt from the Pod of another attempt", () => {
    const pods = [1, 2].map((number) =>
      JSON.stringify(executorPod(aRequest({ attempt: anAttempt({ number }) }), podSettings(), testStart)),
    );
    const [first = "", second = ""] = pods.map((text) =>
      text
        .replaceAll(/"ci\.ddupan\.top\/(attempt|nonce)":"[0-9a-f]+"/g, "$1")
        .replaceAll(/gitea-task-42-[12]-0{8}/g, "name"),
    );
    assert.notEqual(pods[0], pods[1]);
    assert.equal(first, second);
  });

  for (const [title, ms, seconds] of [
    ["rounds its deadline up to whole seconds", 1_001, 2],
    ["is created, and ended at once, when its deadline is over", -5_000, 1],
    ["has the longest deadline there is when that is far away", Infinity, 2_147_483_647],
  ] as const)
    it(title, () => {
      const pod = executorPod(aRequest({}, testStart + ms), podSettings(), testStart);
      assert.equal(specOf(pod)["activeDeadlineSeconds"], seconds);
    });

  it("runs as the configured user, whom its registration entry names", () => {
    const { containers } = specOf(executorPod(aRequest(), podSettings({ uid: 1234 }), testStart));
    const [container] = containers as readonly JsonObject[];
    assert.deepEqual(container?.["securityContext"], {
      privileged: true,
      runAsUser: 1234,
      runAsGroup: 1234,
    });
  });
});
