import { z } from "zod";
import type { FailureReason } from "../../assignment/failure-reasons.ts";
import { BackendError } from "../backend.ts";

/** What the API answered to a create that it did not do. */
export type CreateRefusal =
  /** There is one of that name: whether it is ours is to be seen. */
  { readonly kind: "exists" } | { readonly kind: "refused"; readonly error: BackendError };

/**
 * Reads the answer to a create of a Pod: its HTTP status, and its body if that was JSON. Permanent is what the API
 * says of this Pod, and would say of each; what is wrong with the API, the namespace or our own rights is the
 * backend's trouble, and waited for. Whoever refuses may quote the Pod, in which `secret` stands. Total.
 */
export function createRefusal(
  name: string,
  httpStatus: number,
  body: unknown,
  secret: string,
): CreateRefusal {
  const { reason, message, fields } = parseStatus(body);
  const words = message === "" ? `HTTP ${httpStatus}` : withoutSecret(message, secret);
  const row = rows.find(
    (one) =>
      one.status.includes(httpStatus) &&
      (one.named === undefined || one.named === reason) &&
      (one.says?.test(words) ?? true) &&
      (one.field === undefined || fields.some((field) => one.field?.test(field))),
  );
  if (row?.means === "exists") return { kind: "exists" };
  const { kind, cause } = row?.means ?? { kind: "retryable" as const };
  const options = cause === undefined ? {} : { reason: cause };
  return { kind: "refused", error: new BackendError(kind, `creating Pod ${name}: ${words}`, options) };
}

/** The words, fit to be told. */
export function withoutSecret(words: string, secret: string): string {
  return secret === "" ? words : words.replaceAll(secret, "[hidden]");
}

type Row = {
  readonly status: readonly number[];
  /** The reason in the API's Status. */
  readonly named?: string;
  readonly says?: RegExp;
  /** The path of a field that it complains about. */
  readonly field?: RegExp;
  readonly means: "exists" | { readonly kind: BackendError["kind"]; readonly cause?: FailureReason };
};

const later: Row["means"] = { kind: "retryable" };
const room: Row["means"] = { kind: "retryable", cause: "quota" };
const never: Row["means"] = { kind: "terminal", cause: "config_error" };

/** The first that fits counts; what none fits (an overload, an inner error, no status at all) may pass. */
const rows: readonly Row[] = [
  { status: [409], named: "AlreadyExists", means: "exists" },
  // Two creates have met at the quota's counter.
  { status: [409], says: /resourcequotas/, means: room },
  { status: [403], says: /exceeded quota|status unknown for quota/, means: room },
  // Not the Pod is wrong, but what we may do, or where: nobody's job should fail for that.
  { status: [403], says: /^\S+ is forbidden: User ".*" cannot create/, means: later },
  { status: [403], says: /because it is being terminated/, means: later },
  // Admission: service account, classes, policies, limits.
  { status: [403], named: "Forbidden", means: never },
  { status: [422], field: /\.image$/, means: { kind: "terminal", cause: "image_invalid" } },
  { status: [400, 413, 422], means: never },
  // A webhook may refuse with any code.
  { status: range(400, 499), says: /denied (the )?request/, means: never },
];

function range(from: number, to: number): readonly number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

const text = z.string().optional().catch(undefined);
const status = z
  .object({
    reason: text,
    message: text,
    details: z
      .object({ causes: z.array(z.object({ field: text }).catch({})).catch([]) })
      .catch({ causes: [] }),
  })
  .catch({ details: { causes: [] } });

/** https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/ */
function parseStatus(body: unknown) {
  const { reason = "", message = "", details } = status.parse(body);
  return { reason, message, fields: details.causes.map(({ field = "" }) => field) };
}
