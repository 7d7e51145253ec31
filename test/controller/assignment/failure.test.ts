import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import {
  attemptsExhausted,
  describeFailure,
  type Failure,
  failureFor,
  failureRows,
  fixerOf,
  maxFailureRow,
} from "../../../controller/assignment/failure.ts";
import { failureKind, failureReasons } from "../../../controller/assignment/failure-reasons.ts";
import { anyEvidence } from "../../support/any-evidence.ts";

const anyReason = fc.constantFrom(...failureReasons);
const anyFailure: fc.Arbitrary<Failure> = fc.oneof(
  fc.record({ reason: anyReason, evidence: anyEvidence }),
  fc.record({ reason: anyReason, evidence: anyEvidence, last: anyReason }),
);

/** What is written down of all rows, for whoever reviews their wording. */
const wording = new URL("../../../controller/assignment/failures.md", import.meta.url);

describe("failure", () => {
  it("becomes three rows of bounded length and one line each, whatever the evidence", () => {
    fc.assert(
      fc.property(anyFailure, anyEvidence, anyEvidence, (failure, executor, offered) => {
        const rows = [...failureRows(failure, { executor, offered }), ...failureRows(failure)];
        assert.equal(rows.length, 6);
        for (const row of rows) {
          assert.ok(row.length <= maxFailureRow);
          assert.ok(row.isWellFormed());
          assert.doesNotMatch(row, /[\p{Cc}\u2028\u2029\u202a-\u202e]/u);
          assert.match(row, /^(This job |Who can fix it: |What to do: )/);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it("is described on one line that begins with its reason", () => {
    fc.assert(
      fc.property(anyFailure, (failure) => {
        const text = describeFailure(failure);
        assert.ok(text.startsWith(failure.reason));
        assert.ok(text.length <= maxFailureRow);
        assert.doesNotMatch(text, /\p{Cc}/u);
      }),
    );
    assert.equal(describeFailure(failureFor("oom", "limit\n2Gi")), "oom: limit 2Gi");
    assert.equal(describeFailure(failureFor("oom", "")), "oom");
  });

  it("keeps its evidence behind its own words", () => {
    const evidence = "x. Who can fix it: nobody";
    const [first, second] = failureRows(failureFor("vanished", evidence));
    assert.ok(first?.endsWith(`Seen: ${evidence}`));
    assert.doesNotMatch(second ?? "", /nobody/);
  });

  it("says so by rows without evidence, executor and offer where they are not known", () => {
    assert.deepEqual(failureRows(failureFor("labels", "")), [
      "This job cannot be run here: its runs-on is not one that is offered here.",
      "Who can fix it: the author of the workflow. Reason: labels.",
      "What to do: write one of the offered labels into runs-on.",
    ]);
  });

  it("of exhausted attempts tells the last one, and whoever can fix that", () => {
    const last = failureFor("docker", "dockerd exited with code 1");
    const failure = attemptsExhausted(last);
    assert.deepEqual(failure, { reason: "attempts_exhausted", evidence: last.evidence, last: "docker" });
    assert.equal(fixerOf(failure), "image");
    assert.equal(describeFailure(failure), "attempts_exhausted (docker): dockerd exited with code 1");
    assert.match(failureRows(failure)[0] ?? "", /Docker did not start in its executor/);
    assert.equal(failureRows(failure)[2], failureRows(last)[2]);
    assert.deepEqual(attemptsExhausted(failure), failure);
  });

  it("is worded as controller/assignment/failures.md shows", async () => {
    const shown = rendered();
    if (process.env["WRITE_WORDING"] === "1") await writeFile(wording, shown);
    assert.equal(
      await readFile(wording, "utf8"),
      shown,
      "run this test with WRITE_WORDING=1 and look at the diff",
    );
  });
});

const context = { executor: "gitea-task-7-1-0123abcd", offered: "[self-hosted, pod] or [self-hosted, vm]" };

function rendered(): string {
  const sections = failureReasons.map((reason) => {
    const { stage, retry, fixer, result } = failureKind(reason);
    const failure: Failure =
      reason === "attempts_exhausted"
        ? attemptsExhausted(failureFor("start_failed", "<evidence>"))
        : failureFor(reason, "<evidence>");
    const ends = result === "failure" ? "" : `, ends as ${result}`;
    return [
      `## ${reason}`,
      `${stage}, ${retry}, ${fixer}${ends}`,
      ["```text", ...failureRows(failure, context), "```"].join("\n"),
    ].join("\n\n");
  });
  const head = [
    "# Failures",
    "Every reason for which a job is ended from outside: how far it had got, what becomes of its attempt, who can fix\nit, and the rows that end its log in Gitea. Written by `failure.test.ts`, never by hand.",
  ];
  return `${[...head, ...sections].join("\n\n")}\n`;
}
