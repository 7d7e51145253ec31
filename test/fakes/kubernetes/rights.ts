import type { Permission } from "../../../controller/kubernetes/permissions.ts";
import type { FakeAnswer } from "./request.ts";
import { type Call, type CallMatch, fits } from "./request.ts";

export const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/** Everything is allowed but what is denied, unless rights are named. */
export type Rights = {
  deny(match: CallMatch): void;
  /** From now on nothing else is, by `permissions.ts` as a Role grants it. */
  allowOnly(permissions: readonly Permission[]): void;
  allowAll(): void;
  allows(call: Call): boolean;
  /** The answer to a SelfSubjectAccessReview. */
  review(body: unknown): FakeAnswer;
};

export function createRights(): Rights {
  let denied: readonly CallMatch[] = [];
  let granted: readonly Permission[] | undefined;
  const grants = ({ verbs, resource, namespace }: Permission, call: Call) =>
    verbs.includes(call.verb) &&
    resource === call.resource &&
    call.subresource === undefined &&
    (namespace === undefined || namespace === call.namespace);
  const allows = (call: Call) =>
    (granted?.some((permission) => grants(permission, call)) ?? true) &&
    !denied.some((match) => fits(match, call));
  return {
    deny: (match) => {
      denied = [...denied, match];
    },
    allowOnly: (permissions) => {
      granted = permissions;
    },
    allowAll: () => {
      denied = [];
      granted = undefined;
    },
    allows,
    review: (body) => {
      const review = body as { readonly spec: { readonly resourceAttributes: Call } };
      const { verb, resource, namespace } = review.spec.resourceAttributes;
      const allowed = allows({ verb, resource, ...(namespace === undefined ? {} : { namespace }) });
      return { status: 201, body: { ...review, status: { allowed } } };
    },
  };
}
