import type { Document } from "./document.ts";

/** A collection that the fake has. */
export type Resource = {
  readonly group: string;
  readonly version: string;
  readonly name: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** What a field selector may ask for, beside the name and the namespace. */
  readonly fields: (document: Document) => Readonly<Record<string, string>>;
  /** Its status changes only through its subresource. */
  readonly hasStatus: boolean;
  /** Brought by an extension: no strategic merge patch. */
  readonly custom: boolean;
};

const plain = {
  group: "",
  version: "v1",
  namespaced: true,
  fields: () => ({}),
  hasStatus: true,
  custom: false,
};

export const resources: readonly Resource[] = [
  {
    ...plain,
    name: "pods",
    kind: "Pod",
    fields: ({ spec = {}, status = {} }) => ({
      "spec.nodeName": text(spec["nodeName"]),
      "status.phase": text(status["phase"]),
    }),
  },
  {
    ...plain,
    name: "events",
    kind: "Event",
    hasStatus: false,
    fields: (event) => {
      const involved = (event["involvedObject"] ?? {}) as Readonly<Record<string, unknown>>;
      const names = ["kind", "namespace", "name", "uid"];
      return {
        reason: text(event["reason"]),
        type: text(event["type"]),
        ...Object.fromEntries(names.map((name) => [`involvedObject.${name}`, text(involved[name])])),
      };
    },
  },
  { ...plain, name: "nodes", kind: "Node", namespaced: false },
  { ...plain, name: "namespaces", kind: "Namespace", namespaced: false },
  { ...plain, name: "configmaps", kind: "ConfigMap", hasStatus: false },
  { ...plain, group: "coordination.k8s.io", name: "leases", kind: "Lease", hasStatus: false },
  {
    ...plain,
    group: "spire.spiffe.io",
    version: "v1alpha1",
    name: "clusterstaticentries",
    kind: "ClusterStaticEntry",
    namespaced: false,
    custom: true,
  },
];

/** What a path names. */
export type Target = {
  readonly resource: Resource;
  readonly namespace?: string;
  readonly name?: string;
  readonly subresource?: string;
};

/** Undefined for a path of which the fake knows nothing. */
export function targetOf(path: string): Target | undefined {
  const [, group = "", version, rest = ""] = /^\/(?:api|apis\/([^/]+))\/([^/]+)\/(.+)$/.exec(path) ?? [];
  const parts = rest.split("/").map(decodeURIComponent);
  // A namespace with nothing behind it is an object of its own.
  const inside = parts[0] === "namespaces" && parts.length > 2 && parts[2] !== "status";
  const [name = "", object, subresource] = inside ? parts.slice(2) : parts;
  const resource = resources.find(
    (known) => known.group === group && known.version === version && known.name === name,
  );
  if (resource === undefined || (inside && !resource.namespaced)) return undefined;
  return {
    resource,
    ...(inside ? { namespace: parts[1] ?? "" } : {}),
    ...(object === undefined ? {} : { name: object }),
    ...(subresource === undefined ? {} : { subresource }),
  };
}

export function resourceOf(kind: string | undefined): Resource {
  const found = resources.find((resource) => resource.kind === kind);
  if (found === undefined) throw new Error(`the fake has no ${kind}`);
  return found;
}

export function apiVersionOf({ group, version }: Resource): string {
  return group === "" ? version : `${group}/${version}`;
}

/** As the API server's messages call it. */
export function qualified({ group, name }: Resource): string {
  return group === "" ? name : `${name}.${group}`;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
