import type { Document } from "./document.ts";
import { badRequest } from "./refused.ts";
import type { Resource } from "./resources.ts";

export type Select = (document: Document) => boolean;

/** What `labelSelector` and `fieldSelector` of a query select. Throws Refused for what the API server refuses. */
export function selectorOf(resource: Resource, query: Readonly<Record<string, string>>): Select {
  const labels = termsOf(query["labelSelector"]).map(labelTerm);
  const fields = termsOf(query["fieldSelector"]).map((term) => fieldTerm(resource, term));
  return (document) => [...labels, ...fields].every((matches) => matches(document));
}

/** Commas within brackets do not divide. */
function termsOf(selector = ""): readonly string[] {
  return selector.split(/,(?![^(]*\))/).flatMap((term) => (term.trim() === "" ? [] : [term.trim()]));
}

function labelTerm(term: string): Select {
  const labelOf = (document: Document, key = "") => document.metadata.labels?.[key];
  const set = /^(\S+)\s+(in|notin)\s+\(([^)]*)\)$/.exec(term);
  if (set !== null) {
    const values = (set[3] ?? "").split(",").map((value) => value.trim());
    return (document) => values.includes(labelOf(document, set[1]) ?? "") === (set[2] === "in");
  }
  const equality = /^([^=!\s]+)\s*(!=|==?)\s*([^=!\s]*)$/.exec(term);
  if (equality !== null)
    return (document) => (labelOf(document, equality[1]) === equality[3]) === (equality[2] !== "!=");
  const existence = /^(!?)([^=!\s]+)$/.exec(term);
  if (existence === null) throw badRequest(`unable to parse requirement: found '${term}'`);
  return (document) => (labelOf(document, existence[2]) !== undefined) === (existence[1] === "");
}

function fieldTerm(resource: Resource, term: string): Select {
  const [, field = "", operator, value = ""] = /^([^=!]+)(!=|==?)(.*)$/.exec(term) ?? [];
  const fieldsOf = (document: Document): Readonly<Record<string, string>> => ({
    "metadata.name": document.metadata.name,
    ...(resource.namespaced ? { "metadata.namespace": document.metadata.namespace ?? "" } : {}),
    ...resource.fields(document),
  });
  if (!(field in fieldsOf({ metadata: { name: "" } })))
    throw badRequest(
      `Unable to find "${resource.group}/${resource.version}, Resource=${resource.name}" that match label selector "", field selector "${term}": field label not supported: ${field}`,
    );
  return (document) => (fieldsOf(document)[field] === value) === (operator !== "!=");
}
