import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { bodyOf, markerOf, maximumBytes } from "../../../scripts/comment-preview/body.ts";

const subject = { stack: "prod", commit: "c".repeat(40), run: "17" };
const origin = `Of commit ${"c".repeat(40)}, by run 17.`;
const long = (lines: number) =>
  [
    "## Plan of stack prod",
    "",
    "1 to create.",
    "",
    "````",
    ...Array<string>(lines).fill("+ ```é".repeat(8)),
    "````",
  ].join("\n");

describe("the comment of a plan", () => {
  it("B-95 begins with a line that is not shown, and ends with where it comes from", () => {
    assert.equal(
      bodyOf(subject, "## Plan of stack prod\n\n1 to create.\n"),
      `<!-- gitea-dynamic-runner: plan of stack prod -->\n## Plan of stack prod\n\n1 to create.\n\n${origin}\n`,
    );
  });

  it("of one stack is none of another's, whatever the name", () => {
    assert.notEqual(markerOf("prod"), markerOf("prod2"));
    assert.equal(markerOf("a-->b\nc"), "<!-- gitea-dynamic-runner: plan of stack a--_b_c -->");
  });

  it("B-95 says that there is no plan where the preview left nothing", () => {
    for (const nothing of ["", " \n\n"])
      assert.match(
        bodyOf(subject, nothing),
        /^<!-- [^\n]*\n## Plan of stack prod\n\n\*\*No plan:\*\* the preview did not/,
      );
  });

  it("B-95 that would be too long says how much of it is missing, and where that is", () => {
    const plan = long(5_000);
    const body = bodyOf(subject, plan);
    assert.ok(Buffer.byteLength(body) <= maximumBytes);
    assert.ok(Buffer.byteLength(body) > maximumBytes - 2_048, "no more is left out than has to be");
    const told =
      /\*\*This is not all of it:\*\* the last (\d+) of (\d+) lines are left out here, the job's log/.exec(
        body,
      );
    assert.equal(Number(told?.[2]), plan.split("\n").length);
    const kept = body.split("\n").filter((line) => line.startsWith("+ ")).length;
    assert.equal(kept + Number(told?.[1]) + 5, plan.split("\n").length);
    assert.ok(body.endsWith(`\n\n${origin}\n`));
  });

  it("ends the block of code that it cuts, so that the rest is read as text", () => {
    const lines = bodyOf(subject, long(5_000)).split("\n");
    assert.equal(lines.filter((line) => line === "````").length, 2);
    assert.ok(lines.lastIndexOf("````") < lines.findIndex((line) => line.startsWith("**This is not all")));
  });

  it("that just fits is not cut, and cuts no block that is ended already", () => {
    const room = maximumBytes - 1024;
    assert.doesNotMatch(bodyOf(subject, "x".repeat(room)), /not all of it/);
    const body = bodyOf(subject, `\`\`\`\ncode\n\`\`\`\n${"text\n".repeat(20_000)}`);
    assert.equal(body.split("\n").filter((line) => line === "```").length, 2);
  });

  it("of one endless line shows the beginning, in whole characters", () => {
    for (const before of ["", "x", "xx"]) {
      const body = bodyOf(subject, before + "€".repeat(100_000));
      assert.ok(Buffer.byteLength(body) <= maximumBytes);
      assert.doesNotMatch(body, /\uFFFD/);
      assert.match(body, /\n(xx?)?€+\n\n\*\*This is not all of it:\*\*/);
    }
  });

  it("shows no password of an address", () => {
    const body = bodyOf(
      subject,
      "no connection to nats://ci:geheim@nats:4222/x, tls://token@h and https://h/a@b",
    );
    assert.match(body, /nats:\/\/\[redacted\]@nats:4222\/x, tls:\/\/\[redacted\]@h and https:\/\/h\/a@b/);
    assert.doesNotMatch(body, /geheim|token@/);
  });
});
