import { z } from "zod";
import type { StoredReport } from "../assignment/record.ts";
import type { KeyRing } from "../identity/key-ring.ts";
import { openLine, readLine, sealLine } from "../identity/sealed-line.ts";

/** Which part of which report a value of the bucket is. */
export type PartOf = { readonly assignmentId: string; readonly report: StoredReport; readonly part: number };

export type OpenedPart =
  | { readonly kind: "opened"; readonly bytes: Uint8Array }
  | { readonly kind: "unknown-key"; readonly keyId: string }
  /** Changed, or another report's: nobody will ever read it. */
  | { readonly kind: "invalid" };

const version = 1;

const lineSchema = z.object({
  version: z.literal(version),
  assignment: z.string(),
  report: z.string(),
  part: z.number(),
  parts: z.number(),
  bytes: z.number(),
  result: z.string(),
  key: z.string(),
  iv: z.string(),
});

/** Seals a part. What it is a part of stands in clear and is bound to it, so that no part passes for another. */
export function sealPart(
  ring: KeyRing,
  { assignmentId, report, part }: PartOf,
  bytes: Uint8Array,
  randomBytes: (size: number) => Uint8Array,
): Uint8Array {
  const { key, ...rest } = report;
  return sealLine(
    ring,
    { version, assignment: assignmentId, report: key, part, ...rest },
    bytes,
    randomBytes,
  );
}

/** Opens what `sealPart` made of that very part. It never throws. */
export function openPart(
  ring: KeyRing,
  { assignmentId, report, part }: PartOf,
  sealed: Uint8Array,
): OpenedPart {
  const read = readLine(sealed);
  const parsed = lineSchema.safeParse(read?.value);
  if (read === undefined || !parsed.success) return { kind: "invalid" };
  const { data } = parsed;
  const same =
    data.assignment === assignmentId &&
    data.report === report.key &&
    data.part === part &&
    data.parts === report.parts &&
    data.bytes === report.bytes &&
    data.result === report.result;
  if (!same) return { kind: "invalid" };
  const opened = openLine(ring, read, data);
  switch (opened.kind) {
    case "opened":
      return { kind: "opened", bytes: opened.secret };
    case "unknown-key":
      return { kind: "unknown-key", keyId: data.key };
    case "changed":
      return { kind: "invalid" };
    default:
      return opened satisfies never;
  }
}
