import { strategicMerge } from "../../../controller/backends/pod/strategic-merge.ts";
import type { JsonObject, Json } from "../../../controller/kubernetes/json.ts";
import { isJsonObject } from "../../../controller/kubernetes/json.ts";
import type { Document } from "./document.ts";
import { badRequest, Refused, statusOf } from "./refused.ts";
import type { Resource } from "./resources.ts";

/** The object with a patch in it. Throws Refused for a kind of patch that the API server does not take here. */
export function patched(resource: Resource, document: Document, patch: unknown, contentType = ""): Document {
  const before = document as unknown as JsonObject;
  if (!isJsonObject(patch as Json)) throw badRequest("error decoding patch");
  if (contentType === "application/merge-patch+json")
    return mergePatch(before, patch as JsonObject) as unknown as Document;
  if (contentType === "application/strategic-merge-patch+json" && !resource.custom) {
    const { result, mistakes } = strategicMerge(before, patch as JsonObject);
    if (mistakes.length > 0) throw badRequest(mistakes.join("; "));
    return result as unknown as Document;
  }
  throw new Refused(
    415,
    statusOf(
      415,
      "UnsupportedMediaType",
      "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    ),
  );
}

/** RFC 7396. */
function mergePatch(before: Json | undefined, patch: Json): Json {
  if (!isJsonObject(patch)) return patch;
  const result = new Map(Object.entries(isJsonObject(before) ? before : {}));
  for (const [key, value] of Object.entries(patch))
    if (value === null) result.delete(key);
    else result.set(key, mergePatch(result.get(key), value));
  return Object.fromEntries(result);
}
