import type { Clock } from "../../../controller/platform/clock.ts";
import { checkPreconditions, deleteObject, type DeleteOptions, isOver } from "./delete.ts";
import type { Document } from "./document.ts";
import { createLister } from "./list.ts";
import { patched } from "./patch.ts";
import { alreadyExists, badRequest, invalid, notFound, otherUid, stale } from "./refused.ts";
import type { FakeAnswer, FakeRequest, Verb } from "./request.ts";
import { apiVersionOf, type Resource, resourceOf, type Target } from "./resources.ts";
import type { Store } from "./store.ts";
import { validate } from "./validate.ts";

/** Does what is asked of objects, watches aside. Throws Refused. */
export function createOperations(store: Store, clock: Pick<Clock, "now">) {
  const list = createLister(store);

  const existing = ({ resource, namespace, name = "" }: Target): Document => {
    const document = store.get(resource, namespace, name);
    if (document === undefined) throw notFound(resource, name);
    return document;
  };

  const create = ({ resource, namespace }: Target, body: unknown): Document => {
    const given = copyOf(body);
    const document = {
      ...given,
      metadata: { ...given.metadata, ...(namespace === undefined ? {} : { namespace }) },
    };
    validate(resource, document);
    const { name } = document.metadata;
    if (given.metadata.namespace !== undefined && given.metadata.namespace !== namespace)
      throw badRequest(
        "the namespace of the provided object does not match the namespace sent on the request",
      );
    if (given.metadata.resourceVersion !== undefined)
      throw badRequest("resourceVersion should not be set on objects to be created");
    const namespaces = resourceOf("Namespace");
    if (namespace !== undefined && store.get(namespaces, undefined, namespace) === undefined)
      throw notFound(namespaces, namespace);
    if (store.get(resource, namespace, name) !== undefined) throw alreadyExists(resource, name);
    return store.put(resource, { ...document, ...defaults(document) });
  };

  /** A write over what is there: what it may not change stays. */
  const write = (target: Target, before: Document, given: Document): Document => {
    const { resource, subresource } = target;
    const { name, uid = "", resourceVersion } = before.metadata;
    const wanted = given.metadata;
    if (wanted.name !== name)
      throw badRequest(`the name of the object does not match the name on the URL (${name})`);
    if (wanted.resourceVersion !== undefined && wanted.resourceVersion !== resourceVersion)
      throw stale(resource, name);
    if (wanted.uid !== undefined && wanted.uid !== uid) throw otherUid(resource, name, wanted.uid, uid);
    const { deletionTimestamp, deletionGracePeriodSeconds } = before.metadata;
    const kept = { deletionTimestamp, deletionGracePeriodSeconds };
    const after =
      subresource === "status"
        ? { ...before, status: given.status }
        : {
            ...given,
            ...(resource.hasStatus ? { status: before.status } : {}),
            metadata: { ...wanted, namespace: before.metadata.namespace, ...kept },
          };
    const document = copyOf(after);
    validate(resource, document, before);
    if (!isOver(document)) return store.put(resource, document);
    // The last state that anybody hears of is the one that still held it.
    store.remove(resource, before);
    return document;
  };

  const remove = (target: Target, options: DeleteOptions): object => {
    const before = existing(target);
    checkPreconditions(target.resource, before, options.preconditions ?? {});
    const { document, gone } = deleteObject(store, target.resource, before, options, clock.now());
    // Of Pods the server shows the last state.
    if (!gone || target.resource.kind === "Pod") return document;
    const { name, uid } = before.metadata;
    const { group, name: kind } = target.resource;
    return {
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Success",
      details: { name, ...(group === "" ? {} : { group }), kind, uid },
    };
  };

  const answers: Readonly<
    Record<Exclude<Verb, "watch">, (target: Target, request: FakeRequest) => FakeAnswer>
  > = {
    get: (target) => ({ status: 200, body: existing(target) }),
    list: (target, { query }) => ({ status: 200, body: list(target, query) }),
    create: (target, { body }) => ({ status: 201, body: create(target, body) }),
    update: (target, { body }) => {
      const given = copyOf(body);
      const before = existing(target);
      if (needsVersion(target.resource) && given.metadata.resourceVersion === undefined)
        throw invalid(
          target.resource,
          given.metadata.name,
          "metadata.resourceVersion",
          "Invalid value: 0: must be specified for an update",
        );
      return { status: 200, body: write(target, before, given) };
    },
    patch: (target, { body, contentType }) => {
      const before = existing(target);
      const after = patched(target.resource, before, body, contentType);
      const { name, uid = "", resourceVersion } = after.metadata;
      // Other than in a replacement it is a field like another; what is out of date is said before.
      const current = resourceVersion === before.metadata.resourceVersion;
      if (current && uid !== before.metadata.uid)
        throw invalid(target.resource, name, "metadata.uid", `Invalid value: "${uid}": field is immutable`);
      return { status: 200, body: write(target, before, after) };
    },
    delete: (target, { body }) => ({ status: 200, body: remove(target, body ?? {}) }),
  };
  return answers;
}

/** Built-in kinds may choose; of ours a Lease does. */
function needsVersion({ kind, custom }: Resource): boolean {
  return custom || kind === "Lease";
}

/** As what came over a network; without what is undefined. */
function copyOf(body: unknown): Document {
  if (typeof body !== "object" || body === null) throw badRequest("the body is no object");
  const copy = JSON.parse(JSON.stringify(body)) as Document;
  return { ...copy, metadata: copy.metadata ?? { name: "" } };
}

/** What the server adds to a new object, as far as anything of ours looks at it. */
function defaults(document: Document): Partial<Document> {
  if (document.kind !== "Pod") return {};
  return {
    apiVersion: apiVersionOf(resourceOf("Pod")),
    spec: { terminationGracePeriodSeconds: 30, restartPolicy: "Always", ...document.spec },
    status: { phase: "Pending", qosClass: "BestEffort" },
  };
}
