import type { ApiCall } from "../../../controller/kubernetes/kubernetes-api.ts";
import type { Target } from "./resources.ts";

export type FakeRequest = Omit<ApiCall, "query"> & { readonly query: Readonly<Record<string, string>> };

export type FakeAnswer = {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A text is sent as it is, anything else as JSON. */
  readonly body: unknown;
};

/** As RBAC calls it. */
export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete";

/** What a request is, for rights, faults and counts. */
export type Call = {
  readonly verb: Verb;
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly subresource?: string;
};

/** Whatever it leaves open fits. */
export type CallMatch = Partial<Call>;

export function callOf({ method, query, body }: FakeRequest, target: Target): Call {
  const { resource, namespace, subresource } = target;
  const name = target.name ?? (method === "POST" ? nameIn(body) : undefined);
  return {
    verb: verbOf(method, target, query),
    resource: resource.name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(subresource === undefined ? {} : { subresource }),
  };
}

export function fits(match: CallMatch, call: Call): boolean {
  return Object.entries(match).every(([field, value]) => Reflect.get(call, field) === value);
}

function verbOf(method: ApiCall["method"], { name }: Target, query: FakeRequest["query"]): Verb {
  if (method !== "GET") return writes[method];
  if (query["watch"] === "true") return "watch";
  return name === undefined ? "list" : "get";
}

const writes = { POST: "create", PUT: "update", PATCH: "patch", DELETE: "delete" } as const;

function nameIn(body: unknown): string | undefined {
  return (body as { readonly metadata?: { readonly name?: string } } | undefined)?.metadata?.name;
}
