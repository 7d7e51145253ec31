import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { describe, it } from "mocha";
import { failureKind } from "../../../../controller/assignment/failure-reasons.ts";
import {
  graceMs,
  otherCause,
  type Patience,
  startCause,
  startCauses,
} from "../../../../controller/backends/pod/start-causes.ts";

const rows = [...startCauses, { seen: ["anything else"], ...otherCause }];

/** The table for people. */
const table = new URL("../../../../controller/backends/pod/start-causes.md", import.meta.url);

describe("the table of causes of a start", () => {
  it("gives up at once, or after a grace, exactly what another attempt would meet as well", () => {
    for (const { seen, reason, patience } of rows)
      assert.equal(
        failureKind(reason).retry === "permanent",
        patience.kind !== "wait",
        `${seen.join()}: ${reason}`,
      );
  });

  it("holds start failures only", () => {
    for (const { reason } of rows) assert.equal(failureKind(reason).stage, "never started");
  });

  it("has a job's log told within 30 s", () => {
    assert.ok(graceMs < 30_000);
    for (const { patience } of rows) if (patience.kind === "wait") assert.ok(patience.quietMs < 30_000);
  });

  it("has no row that another one hides", () => {
    startCauses.forEach((row, index) => {
      const before = startCauses.slice(0, index).filter(({ says }) => says === undefined);
      for (const seen of row.seen) assert.ok(!before.some((other) => other.seen.includes(seen)), seen);
    });
  });

  it("knows no reason that nobody gives", () => {
    assert.equal(startCause("", ""), undefined);
    assert.equal(startCause("ContainerCreating", ""), undefined);
  });

  it("is what start-causes.md shows", async () => {
    const shown = rendered();
    if (process.env["WRITE_WORDING"] === "1") await writeFile(table, shown);
    assert.equal(
      await readFile(table, "utf8"),
      shown,
      "run this test with WRITE_WORDING=1 and look at the diff",
    );
  });
});

function rendered(): string {
  const sections = rows.map(({ seen, says, reason, patience }) => {
    const message = says === undefined ? "" : ` with \`${says.source}\``;
    return `- ${seen.map((one) => `\`${one}\``).join(", ")}${message}: **${reason}**, ${shownPatience(patience)}`;
  });
  const head =
    "# What keeps a Pod from starting, and what becomes of the job\n\nThe first line that fits counts: a reason of the kubelet or the scheduler, in the Pod or in its events, and what its\nmessage says. Written by `start-causes.test.ts`, never by hand.";
  return `${head}\n\n${sections.join("\n")}\n`;
}

function shownPatience(patience: Patience): string {
  switch (patience.kind) {
    case "permanent":
      return "fails at once";
    case "grace":
      return `fails after ${patience.ms / 1000} s`;
    case "wait":
      return patience.quietMs === 0
        ? "waits, and says so"
        : `waits, and says so after ${patience.quietMs / 1000} s`;
    default:
      return patience satisfies never;
  }
}
