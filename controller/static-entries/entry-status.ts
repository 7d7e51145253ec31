import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { type Failure, failureFor } from "../assignment/failure.ts";
import type { StaticEntry } from "./static-entry.ts";

/** What is read of a `ClusterStaticEntry` as the API gives it. */
export type EntryDocument = z.infer<typeof entry>;

const text = z.string().optional().catch(undefined);
const flag = z.boolean().optional().catch(undefined);
const texts = z.record(z.string(), z.string()).catch({});
const nothing = { name: "", uid: "", resourceVersion: "", labels: {}, annotations: {} };
const entry = z
  .object({
    metadata: z
      .object({
        name: z.string().catch(""),
        uid: z.string().catch(""),
        resourceVersion: z.string().catch(""),
        creationTimestamp: text,
        labels: texts,
        annotations: texts,
      })
      .catch(nothing),
    spec: z
      .looseObject({
        spiffeID: text,
        parentID: text,
        selectors: z.array(z.string()).catch([]),
        x509SVIDTTL: text,
        className: text,
      })
      .catch({ selectors: [] }),
    status: z.object({ rendered: flag, masked: flag }).optional().catch(undefined),
  })
  .catch({ metadata: nothing, spec: { selectors: [] } });

/** Total: what is no entry reads as one that says nothing. */
export function parseEntry(value: unknown): EntryDocument {
  return entry.parse(value);
}

export type EntryStanding =
  /** spire-controller-manager has read it, and does what it can: the executor will be given its identity, or not. */
  | { readonly kind: "declared" }
  /** It may still be read. The failure says why it takes so long, when it does. */
  | { readonly kind: "waiting"; readonly failure?: Failure }
  /** It will never be one, as it is. */
  | { readonly kind: "failed"; readonly failure: Failure };

/**
 * A controller-manager that was busy when the entry came reads it after its next interval, 10 s by default, and
 * after a pass over everything.
 */
export const noticeMs = 30_000;

/**
 * What spire-controller-manager (v0.6) has made of an entry that was created `ageMs` ago. Its `set` says nothing:
 * true only until the next pass, and false both for an entry that is in use and for one that the server refuses. The
 * only sign that an identity is there is the executor's call.
 */
export function entryStanding({ metadata, spec, status }: EntryDocument, ageMs: number): EntryStanding {
  const failure = (why: string) => failureFor("identity", `ClusterStaticEntry ${metadata.name}: ${why}`);
  if (status?.rendered === undefined)
    return ageMs < noticeMs
      ? { kind: "waiting" }
      : {
          kind: "waiting",
          failure: failure(
            `no spire-controller-manager has read it; none runs, none has class ${JSON.stringify(spec.className ?? "")}, or what it says cannot be read`,
          ),
        };
  if (!status.rendered)
    return { kind: "failed", failure: failure("spire-controller-manager cannot make an entry of it") };
  if (status.masked === true)
    return {
      kind: "failed",
      failure: failure("an older one has the same identity, parent and selectors"),
    };
  return { kind: "declared" };
}

/**
 * Whether what is there under the name of an entry is that entry. `stale`: it is ours and says something else, such as
 * the UID of a Pod that is gone, and has to make way. `foreign`: it is not ours to touch.
 */
export function compareEntry(found: EntryDocument, wanted: StaticEntry): "same" | "stale" | "foreign" {
  const labels = Object.entries(wanted.metadata.labels).filter(([key]) => key.startsWith("ci.ddupan.top/"));
  if (!labels.every(([key, value]) => found.metadata.labels[key] === value)) return "foreign";
  // More than we ask for may be more than a job should have: `admin` and `downstream` are fields like any other.
  const said = Object.entries(found.spec).filter(([, value]) => value !== undefined && value !== false);
  return isDeepStrictEqual(Object.fromEntries(said), wanted.spec) ? "same" : "stale";
}
