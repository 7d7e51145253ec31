import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import type { Json, JsonObject } from "../../../../controller/kubernetes/json.ts";
import { strategicMerge } from "../../../../controller/backends/pod/strategic-merge.ts";

const pod: JsonObject = {
  metadata: { labels: { a: "1" } },
  spec: {
    restartPolicy: "Never",
    nodeSelector: { zone: "x" },
    tolerations: [{ key: "old", operator: "Exists" }],
    containers: [
      {
        name: "executor",
        env: [
          { name: "A", value: "1" },
          { name: "B", value: "2" },
        ],
        volumeMounts: [{ name: "v", mountPath: "/v" }],
      },
    ],
    volumes: [{ name: "v", emptyDir: { sizeLimit: "1Gi" } }],
  },
};

function merged(patch: JsonObject): JsonObject {
  const { result, mistakes } = strategicMerge(pod, patch);
  assert.deepEqual(mistakes, []);
  return result;
}

const specOf = ({ spec }: JsonObject) => spec as Record<string, Json>;
const mistakesOf = (patch: JsonObject) => strategicMerge(pod, patch).mistakes;

/** Patches that look like those of Pods, with names that meet those of the Pod above. */
const anyPatch = fc.letrec<{ value: Json; map: JsonObject; item: JsonObject }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<Json>("x", 1, true, null),
    tie("map"),
    fc.array(tie("item"), { maxLength: 3 }),
  ),
  map: fc.dictionary(
    fc.constantFrom(
      "metadata",
      "spec",
      "labels",
      "containers",
      "volumes",
      "env",
      "tolerations",
      "$patch",
      "a",
    ),
    tie("value"),
    { maxKeys: 4 },
  ),
  item: fc
    .record({ name: fc.constantFrom("executor", "other", "v", "A"), more: tie("map") })
    .map(({ name, more }) => ({ ...more, name })),
})).map;

function frozen<T extends Json>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const inside of Object.values(value)) frozen(inside);
    Object.freeze(value);
  }
  return value;
}

describe("a strategic merge", () => {
  it("merges maps and adds what is new", () => {
    const { metadata, spec } = merged({
      metadata: { labels: { b: "2" } },
      spec: { nodeSelector: { zone: "y" }, priorityClassName: "ci" },
    });
    assert.deepEqual(metadata, { labels: { a: "1", b: "2" } });
    assert.deepEqual(spec, { ...specOf(pod), nodeSelector: { zone: "y" }, priorityClassName: "ci" });
  });

  it("removes a field that is null, also one that is not there", () => {
    const { spec } = merged({ spec: { nodeSelector: null, hostAliases: null } });
    const { nodeSelector: _, ...rest } = specOf(pod);
    assert.deepEqual(spec, rest);
  });

  it("merges containers, variables, mounts and volumes by what names them, in their order", () => {
    const { spec } = merged({
      spec: {
        containers: [
          { name: "helper", image: "helper:1" },
          {
            name: "executor",
            resources: { limits: { memory: "1Gi" } },
            env: [
              { name: "C", value: "3" },
              { name: "A", value: "0" },
            ],
            volumeMounts: [{ mountPath: "/w", name: "w" }],
          },
        ],
        volumes: [
          { name: "w", emptyDir: {} },
          { name: "v", emptyDir: { medium: "Memory" } },
        ],
      },
    });
    assert.deepEqual((spec as JsonObject)["containers"], [
      {
        name: "executor",
        env: [
          { name: "A", value: "0" },
          { name: "B", value: "2" },
          { name: "C", value: "3" },
        ],
        volumeMounts: [
          { name: "v", mountPath: "/v" },
          { name: "w", mountPath: "/w" },
        ],
        resources: { limits: { memory: "1Gi" } },
      },
      { name: "helper", image: "helper:1" },
    ]);
    assert.deepEqual((spec as JsonObject)["volumes"], [
      { name: "v", emptyDir: { sizeLimit: "1Gi", medium: "Memory" } },
      { name: "w", emptyDir: {} },
    ]);
  });

  it("replaces other lists whole, as Kubernetes does with tolerations", () => {
    const tolerations = [{ key: "new", operator: "Exists" }];
    assert.deepEqual(specOf(merged({ spec: { tolerations } }))["tolerations"], tolerations);
  });

  for (const [title, patch, mistake] of [
    ["a directive", { spec: { $patch: "replace" } }, "spec.$patch: directives are not supported"],
    [
      "a directive in an item",
      { spec: { containers: [{ name: "executor", $patch: "delete" }] } },
      "spec.containers[executor].$patch: directives are not supported",
    ],
    [
      "a directive in a list that is replaced",
      { spec: { tolerations: [{ key: "a", more: { $retainKeys: [] } }] } },
      "spec.tolerations[0].more.$retainKeys: directives are not supported",
    ],
    [
      "an order of items",
      { spec: { "$setElementOrder/containers": [] } },
      "spec[$setElementOrder/containers]: directives are not supported",
    ],
    [
      "an item without what names it",
      { spec: { containers: [{ image: "x" }] } },
      "spec.containers[0].name: it is needed, to know which item is meant",
    ],
    [
      "an item that is no map",
      { spec: { containers: [{ name: "executor", env: ["A=1"] }] } },
      "spec.containers[executor].env[0].name: it is needed, to know which item is meant",
    ],
    [
      "an item that comes twice",
      { spec: { volumes: [{ name: "w" }, { name: "w" }] } },
      "spec.volumes[w]: it comes twice",
    ],
    ["a map for a text", { spec: { restartPolicy: {} } }, "spec.restartPolicy: it is not a map in a Pod"],
    ["a map for a list", { spec: { volumes: {} } }, "spec.volumes: it is not a map in a Pod"],
    ["a list for a map", { spec: [] }, "spec: it is not a list in a Pod"],
    ["a text for a map", { spec: { nodeSelector: "x" } }, "spec.nodeSelector: it is a map in a Pod"],
    ["a text for a list", { spec: { volumes: "x" } }, "spec.volumes: it is a list in a Pod"],
  ] as const)
    it(`refuses ${title}, and names the field`, () => {
      assert.deepEqual(mistakesOf(patch), [mistake]);
    });

  it("tells all mistakes, and leaves the rest of the Pod as it was", () => {
    const { result, mistakes } = strategicMerge(pod, {
      metadata: [],
      spec: { restartPolicy: [], volumes: [{ name: "v", emptyDir: 3 }] },
    });
    assert.equal(mistakes.length, 3);
    assert.deepEqual(result, pod);
  });

  it("changes neither the Pod nor the patch, and adds nothing the second time", () => {
    frozen(pod);
    fc.assert(
      fc.property(anyPatch, (patch) => {
        const once = strategicMerge(pod, frozen(patch));
        const twice = strategicMerge(once.result, patch);
        assert.deepEqual(twice.result, once.result);
        assert.deepEqual(twice.mistakes, once.mistakes);
      }),
      { numRuns: 500 },
    );
  });

  it("of nothing is the Pod itself", () => {
    assert.deepEqual(merged({}), pod);
  });

  it("takes no key for the prototype of anything", () => {
    const patch = JSON.parse('{"metadata": {"__proto__": {"polluted": true}}}') as JsonObject;
    const { result } = strategicMerge(pod, patch);
    assert.ok(!("polluted" in (result["metadata"] as JsonObject)));
    assert.ok(!("polluted" in {}));
  });
});
