import type { FakeAnswer } from "./request.ts";
import { type Call, type CallMatch, fits } from "./request.ts";

export const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/** Everything is allowed but what is denied. */
export type Rights = {
  deny(match: CallMatch): void;
  allowAll(): void;
  allows(call: Call): boolean;
  /** The answer to a SelfSubjectAccessReview. */
  review(body: unknown): FakeAnswer;
};

export function createRights(): Rights {
  let denied: readonly CallMatch[] = [];
  const allows = (call: Call) => !denied.some((match) => fits(match, call));
  return {
    deny: (match) => {
      denied = [...denied, match];
    },
    allowAll: () => {
      denied = [];
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
