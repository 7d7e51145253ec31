import { isDeepStrictEqual } from "node:util";
import type { Document } from "./document.ts";
import { badRequest, invalid } from "./refused.ts";
import { apiVersionOf, type Resource } from "./resources.ts";

/** Throws Refused for what the API server would not take either, as far as anything of ours depends on it. */
export function validate(resource: Resource, document: Document, before?: Document): void {
  const { kind, metadata } = document;
  if (document.apiVersion !== apiVersionOf(resource) || kind !== resource.kind)
    throw badRequest(`the API version or the kind in the data does not match the expected ${resource.kind}`);
  if (typeof metadata.name !== "string" || metadata.name === "")
    throw invalid(resource, "", "metadata.name", "Required value: name or generateName is required");
  if (resource.kind === "Lease") validateLease(resource, document);
  if (resource.kind === "Pod" && before !== undefined && !isDeepStrictEqual(fixed(document), fixed(before)))
    throw invalid(
      resource,
      metadata.name,
      "spec",
      "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    );
}

function validateLease(resource: Resource, { metadata, spec = {} }: Document): void {
  for (const field of ["acquireTime", "renewTime"]) {
    const time = spec[field] as string | null | undefined;
    if (typeof time === "string" && !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$/.test(time))
      throw badRequest(
        `Lease in version "v1" cannot be handled as a Lease: parsing time "${time}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse`,
      );
  }
  const seconds = spec["leaseDurationSeconds"] as number | null | undefined;
  if (typeof seconds === "number" && seconds <= 0)
    throw invalid(
      resource,
      metadata.name,
      "spec.leaseDurationSeconds",
      `Invalid value: ${seconds}: must be greater than 0`,
    );
}

/** What of a Pod's spec stays as it was made; a node is given once, by the scheduler. */
function fixed({ spec = {} }: Document): unknown {
  const { activeDeadlineSeconds: _, tolerations: __, containers, ...others } = spec;
  const images = (containers ?? []) as readonly object[];
  return { ...others, containers: images.map((container) => ({ ...container, image: "" })) };
}
