import * as fc from "fast-check";

/** Texts as they may come from a cluster: any at all, and many with pieces that are treated in a special way. */
export const anyEvidence: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: "binary", maxLength: 2000 }),
  fc.string({ maxLength: 2000 }),
  fc
    .array(
      fc.oneof(
        fc.constantFrom(
          ..."\u0000|\u0007|\x1b[2J|\r\n|\t|\u0085|\u2028|\u202e|\ud800|\udc00|😀|…|::error::|##[group]".split(
            "|",
          ),
          ...'://|user:pw@|token=|password: |"|bearer |-----BEGIN A-----|sha256:|.|[hidden]|[hid| '.split(
            "|",
          ),
        ),
        fc.string({ maxLength: 5 }),
        fc.integer({ min: 1, max: 450 }).map((length) => "word ".repeat(90).slice(0, length)),
        fc.integer({ min: 30, max: 50 }).map((length) => "0aB1".repeat(13).slice(0, length)),
      ),
      { maxLength: 40 },
    )
    .map((parts) => parts.join("")),
);
