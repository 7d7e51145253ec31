import type { KubernetesObject } from "../cluster/api.ts";

/** Of the custom resources that the server keeps its sandboxes in. */
export const sandboxGroup = "sandbox.opensandbox.io";
export const sandboxVersion = "v1alpha1";

const openObject = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const count = { type: "integer", minimum: 0 };
const counters = [
  "replicas",
  "allocated",
  "ready",
  "taskRunning",
  "taskSucceed",
  "taskFailed",
  "taskPending",
  "taskUnknown",
];

/** All that it counts; the rest may be anything, as a phase that nobody knows. */
const sandboxStatus = {
  ...openObject,
  required: counters,
  properties: {
    ...Object.fromEntries(counters.map((name) => [name, count])),
    conditions: { type: "array", items: openObject },
  },
};

const poolSpec = {
  ...openObject,
  required: ["capacitySpec", "template"],
  properties: {
    template: openObject,
    capacitySpec: {
      type: "object",
      required: ["bufferMin", "bufferMax", "poolMin", "poolMax"],
      properties: { bufferMin: count, bufferMax: count, poolMin: count, poolMax: count },
    },
  },
};

/**
 * As much of OpenSandbox's definitions as its server reads and writes. Ours are for tests: the real ones say more of what may
 * be in a resource, and come with OpenSandbox.
 */
export const sandboxDefinitions: readonly KubernetesObject[] = [
  definition("BatchSandbox", "batchsandboxes", openObject, sandboxStatus),
  definition("Pool", "pools", poolSpec, openObject),
  definition("SandboxSnapshot", "sandboxsnapshots", openObject, openObject),
];

function definition(kind: string, plural: string, spec: object, status: object): KubernetesObject {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${sandboxGroup}` },
    spec: {
      group: sandboxGroup,
      names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
      scope: "Namespaced",
      versions: [
        {
          name: sandboxVersion,
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: { ...openObject, properties: { spec, status } } },
        },
      ],
    },
  };
}
