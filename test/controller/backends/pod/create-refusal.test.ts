import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import type { FailureReason } from "../../../../controller/assignment/failure-reasons.ts";
import { createRefusal } from "../../../../controller/backends/pod/create-refusal.ts";
import type { BackendError } from "../../../../controller/backends/backend.ts";

/** As the API server 1.37 answers. */
function status(code: number, reason: string, message: string, ...fields: readonly string[]) {
  const causes = fields.map((field) => ({ reason: "FieldValueInvalid", message: "bad", field }));
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    reason,
    details: { name: "e1", kind: "pods", ...(causes.length === 0 ? {} : { causes }) },
    code,
  };
}

const forbidden = (why: string) => status(403, "Forbidden", `pods "e1" is forbidden: ${why}`);

type Case = readonly [string, ReturnType<typeof status>, BackendError["kind"], FailureReason?];

const cases: readonly Case[] = [
  [
    "no service account",
    forbidden('error looking up service account default/absent: serviceaccount "absent" not found'),
    "terminal",
    "config_error",
  ],
  ["no priority class", forbidden("no PriorityClass with name absent was found"), "terminal", "config_error"],
  [
    "no runtime class",
    forbidden('pod rejected: RuntimeClass "absent" not found'),
    "terminal",
    "config_error",
  ],
  [
    "a Pod security standard",
    forbidden(
      'violates PodSecurity "baseline:latest": privileged (container "executor" must not set securityContext.privileged=true)',
    ),
    "terminal",
    "config_error",
  ],
  [
    "a limit range",
    forbidden("maximum memory usage per Container is 1Gi, but limit is 8Gi"),
    "terminal",
    "config_error",
  ],
  [
    "a quota that is exceeded",
    forbidden("exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"),
    "retryable",
    "quota",
  ],
  [
    "a quota that is not counted yet",
    forbidden("status unknown for quota: q, resources: pods"),
    "retryable",
    "quota",
  ],
  [
    "a quota that wants limits",
    forbidden("failed quota: q: must specify limits.cpu for: executor"),
    "terminal",
    "config_error",
  ],
  [
    "two creates that met at the quota",
    status(
      409,
      "Conflict",
      'Operation cannot be fulfilled on resourcequotas "q": the object has been modified; please apply your changes to the latest version and try again',
    ),
    "retryable",
    "quota",
  ],
  [
    "a missing permission of ours",
    status(
      403,
      "Forbidden",
      'pods is forbidden: User "system:serviceaccount:ci:controller" cannot create resource "pods" in API group "" in the namespace "gitea-actions"',
    ),
    "retryable",
  ],
  ["no namespace", status(404, "NotFound", 'namespaces "absent" not found'), "retryable"],
  [
    "a namespace that goes away",
    forbidden("unable to create new content in namespace gitea-actions because it is being terminated"),
    "retryable",
  ],
  [
    "an image that is none",
    status(
      422,
      "Invalid",
      'Pod "e1" is invalid: spec.containers[0].image: Invalid value: " bad ": must not have leading or trailing whitespace',
      "spec.containers[0].image",
    ),
    "terminal",
    "image_invalid",
  ],
  [
    "another field that is wrong",
    status(
      422,
      "Invalid",
      'Pod "e1" is invalid: spec.tolerations[0].effect: Unsupported value: "x"',
      "spec.tolerations[0].effect",
    ),
    "terminal",
    "config_error",
  ],
  [
    "a field that there is not",
    status(400, "BadRequest", 'strict decoding error: unknown field "spec.nodeSelectr"'),
    "terminal",
    "config_error",
  ],
  [
    "a webhook that refuses",
    status(418, "", 'admission webhook "policy.example.org" denied the request: no privileged Pods'),
    "terminal",
    "config_error",
  ],
  [
    "a policy that refuses",
    status(
      422,
      "Invalid",
      "pods \"e1\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
    ),
    "terminal",
    "config_error",
  ],
  [
    "a webhook that does not answer",
    status(
      500,
      "InternalError",
      'Internal error occurred: failed calling webhook "x": no endpoints available',
    ),
    "retryable",
  ],
  ["credentials that ran out", status(401, "Unauthorized", "Unauthorized"), "retryable"],
  ["too many requests", status(429, "TooManyRequests", "too many requests"), "retryable"],
  ["an answer that came too late", status(504, "Timeout", "Timeout: request did not complete"), "retryable"],
];

describe("a create of a Pod that is refused", () => {
  for (const [title, body, kind, reason] of cases)
    it(`for ${title} is ${kind}${reason === undefined ? ", the backend's own trouble" : `: ${reason}`}`, () => {
      const refusal = createRefusal("e1", body.code, body, "the capability");
      assert.ok(refusal.kind === "refused");
      const { error } = refusal;
      assert.deepEqual([error.kind, error.reason], [kind, reason]);
      assert.equal(error.message, `creating Pod e1: ${body.message}`);
    });

  it("B-53 because there is one of that name is no error yet", () => {
    const body = status(409, "AlreadyExists", 'pods "e1" already exists');
    assert.deepEqual(createRefusal("e1", 409, body, "the capability"), { kind: "exists" });
  });

  it("may pass when it says nothing that we know", () => {
    for (const body of [undefined, "bad gateway", {}, { message: 3, details: "none" }]) {
      const refusal = createRefusal("e1", 502, body, "the capability");
      assert.ok(refusal.kind === "refused" && refusal.error.kind === "retryable");
      assert.equal(refusal.error.message, "creating Pod e1: HTTP 502");
    }
  });

  it("is read, whatever the answer", () => {
    fc.assert(
      fc.property(fc.integer({ min: 100, max: 599 }), fc.jsonValue(), (code, body) => {
        assert.match(createRefusal("e1", code, body, "the capability").kind, /^(exists|refused)$/);
      }),
    );
  });
});
