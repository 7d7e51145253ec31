import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { after, before, describe, it } from "mocha";
import { describeFailure } from "../../../controller/assignment/failure.ts";
import { readTask, runsOnOf, type TaskReading } from "../../../controller/protocol/read-task.ts";
import { TaskSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { aPullRequest, anAssignment, aTaskContext, testTrustDomain } from "../../support/builders.ts";

const policy = { trustDomain: testTrustDomain, allowForksOnPods: false };

function workflow(written: string): string {
  return `on: push\njobs:\n  build:\n    runs-on: ${written}\n    steps:\n      - run: echo\n`;
}

function read(payload: string | undefined, changes: Record<string, unknown> = {}, id = 42n): TaskReading {
  const task = create(TaskSchema, { id, context: { ...aTaskContext(), ...changes } as never });
  if (payload !== undefined) task.workflowPayload = Buffer.from(payload);
  return readTask(policy, task);
}

function refusal(reading: TaskReading): string {
  return reading.ok ? assert.fail("it was accepted") : describeFailure(reading.failure);
}

const runsOn = (payload: string) => runsOnOf(Buffer.from(payload));

describe("reading a task", () => {
  it("makes an assignment of runs-on and context", () => {
    assert.deepEqual(read(workflow("[self-hosted, pod]")), { ok: true, assignment: anAssignment() });
  });

  for (const [written, expected] of [
    ["pod", ["pod"]],
    ["[self-hosted, pod]", ["self-hosted", "pod"]],
    ["\n      - self-hosted\n      - vm", ["self-hosted", "vm"]],
    ["{labels: pod}", ["pod"]],
    ["{group: big, labels: [self-hosted, pod]}", ["self-hosted", "pod"]],
    ["[]", []],
    ["[self-hosted, 42, [pod], null]", ["self-hosted"]],
    ['"${{ needs.x.outputs.y }}"', ["${{ needs.x.outputs.y }}"]],
    ["42", []],
    ["{group: big}", []],
    ["{labels: {labels: pod}}", []],
    ["&a {labels: *a}", []],
    ["null", []],
  ] as const)
    it(`reads runs-on: ${written.trim()}`, () => {
      assert.deepEqual(runsOn(workflow(written)), { ok: true, labels: expected });
    });

  it("has no label where the job has no runs-on", () => {
    for (const payload of ["on: push\njobs:\n  build:\n    steps: []\n", "jobs: {build: null}"])
      assert.deepEqual(runsOn(payload), { ok: true, labels: [] });
  });

  for (const [payload, why] of [
    [undefined, "it is empty"],
    ["jobs: [}", "it is no YAML that can be read"],
    ["jobs:\n  a: {runs-on: pod}\n  b: {runs-on: pod}\n", "it has 2 jobs, a task has one"],
    ["jobs:\n  a: {runs-on: pod}\n  b:\n", "it has 2 jobs, a task has one"],
    ["jobs: []", "it has 0 jobs, a task has one"],
    ["on: push", "it has 0 jobs, a task has one"],
    ["just words", "it has 0 jobs, a task has one"],
  ] as const)
    it(`refuses what is no workflow with one job: ${why}`, () => {
      assert.equal(refusal(read(payload)), `bad_workflow: the workflow: ${why}`);
    });

  it("refuses what names no backend, saying what was asked", () => {
    assert.equal(refusal(read(workflow("pod"))), 'labels: runs-on: [pod] lacks "self-hosted"');
    assert.equal(refusal(read(workflow("[self-hosted]"))), "labels: runs-on: [self-hosted] names no backend");
    assert.equal(
      refusal(read(workflow("[self-hosted, pod, vm]"))),
      "labels: runs-on: [self-hosted, pod, vm] names more than one backend",
    );
    assert.equal(
      refusal(read(workflow("[self-hosted, '${{ vars.X }}']"))),
      "labels: runs-on: [self-hosted, ${{ vars.X }}] names no backend",
    );
    assert.match(refusal(read("jobs: {build: {}}")), /lacks "self-hosted"/);
  });

  it("refuses a context without what an identity needs, by the field's name", () => {
    for (const field of ["repository", "job", "ref", "sha", "event"])
      assert.match(
        refusal(read(workflow("[self-hosted, vm]"), { [field]: undefined })),
        new RegExp(`no ${field}|context has no ${field}`),
      );
    assert.match(refusal(read(workflow("[self-hosted, vm]"), { job: "../x" })), /job key/);
  });

  it("refuses a task id that Gitea never gives", () => {
    assert.match(refusal(read(workflow("[self-hosted, pod]"), {}, 0n)), /task id 0/);
  });

  it("refuses a fork's code on pods, naming vm, unless the operator wants it", () => {
    const fork = aPullRequest("mallory/widgets");
    assert.match(refusal(read(workflow("[self-hosted, pod]"), fork)), /^fork_on_pod/);
    assert.ok(read(workflow("[self-hosted, vm]"), fork).ok);
    const task = create(TaskSchema, {
      id: 42n,
      workflowPayload: Buffer.from(workflow("[self-hosted, pod]")),
      context: { ...aTaskContext(), ...fork } as never,
    });
    assert.ok(readTask({ ...policy, allowForksOnPods: true }, task).ok);
  });

  it("reads any text at all without an exception", () => {
    const pieces = fc.constantFrom(
      "jobs:\n",
      "  build:\n",
      "    runs-on: ",
      "[",
      "]",
      "{",
      "}",
      "*a",
      "&a ",
      "? ",
      "- ",
      ": ",
      "!!set ",
      "<<: ",
      "\0",
      "\t",
      "'",
      '"',
      "|\n",
      "---\n",
      "labels: ",
      "__proto__: ",
      "constructor: ",
      "\ud800",
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 40 }), (parts) => {
        read(parts.join(""));
      }),
      { numRuns: 2000 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        runsOnOf(bytes);
      }),
      { numRuns: 2000 },
    );
  });

  // Mocha keeps whole stacks: each of many errors deep down would take as long as all of the reading.
  const { stackTraceLimit } = Error;
  before(() => void (Error.stackTraceLimit = 10));
  after(() => void (Error.stackTraceLimit = stackTraceLimit));

  const lines = (count: number, line: (index: number) => string) =>
    Array.from({ length: count }, (_, index) => line(index)).join("\n");
  const aliasOfAliases = (i: number) =>
    `      a${i + 1}: &a${i + 1} [${Array.from({ length: 9 }, () => `*a${i}`).join(", ")}]`;
  for (const [name, more] of [
    ["keys", `    env:\n${lines(10_000, (i) => `      k${i}: 1`)}`],
    ["anchors", `    env:\n${lines(10_000, (i) => `      k${i}: &a${i} 1`)}`],
    ["tags", `    env:\n${lines(10_000, (i) => `      k${i}: !t${i} 1`)}`],
    ["nested lists", `    env: ${"[".repeat(2_000)}`],
    ["nested blocks", `    env: ${"- ".repeat(2_000)}`],
    ["flow keys", `    env: {${lines(10_000, (i) => `k${i}: 1,`)}}`],
    ["aliases of aliases", `    env:\n      a0: &a0 [1, 1, 1]\n${lines(10, aliasOfAliases)}`],
  ] as const)
    it(`takes no unreasonable time for many ${name}`, () => {
      const started = process.cpuUsage();
      read(`${workflow("[self-hosted, pod]")}${more}\n`);
      const { user, system } = process.cpuUsage(started);
      assert.ok(user + system < 3_000_000, `${(user + system) / 1000} ms`);
    });

  it("does not read a workflow that is larger than any", () => {
    const payload = `${workflow("[self-hosted, pod]")}#${"x".repeat(512 * 1024)}`;
    assert.match(refusal(read(payload)), /the workflow has 5243\d\d bytes, 524288 are possible/);
  });

  it("never writes of a workflow to stderr, whose lines are JSON and hold no payload", () => {
    const emitWarning = process.emitWarning.bind(process);
    const warnings: unknown[] = [];
    process.emitWarning = (warning: unknown) => void warnings.push(warning);
    try {
      runsOn(`${workflow("[self-hosted, pod]")}    env:\n      A: !secret zq7Pw3\n      ? [a]\n      : b\n`);
    } finally {
      process.emitWarning = emitWarning;
    }
    assert.deepEqual(warnings, []);
  });
});
