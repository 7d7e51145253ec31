import assert from "node:assert/strict";
import { describe, it } from "mocha";
import {
  jobOutline,
  runnerFile,
  runnerFileName,
  runnerLabels,
} from "../../../controller/bootstrap/runner-file.ts";

const outline = (yaml: string) => jobOutline(Buffer.from(yaml));
const job = (runsOn: string) => `jobs: { build: { runs-on: ${runsOn}, steps: [{ run: a }, { run: b }] } }`;

describe("the job in a workflow payload", () => {
  const cases: readonly (readonly [string, string, readonly string[]])[] = [
    ["a scalar", "pod", ["pod"]],
    ["a list", "[self-hosted, pod]", ["self-hosted", "pod"]],
    ["a mapping with a list", "{ group: x, labels: [self-hosted, vm] }", ["self-hosted", "vm"]],
    ["a mapping with a scalar", "{ labels: vm }", ["vm"]],
    ["a number", "[self-hosted, 24]", ["self-hosted", "24"]],
    ["nothing", "null", []],
    ["a mapping without labels", "{ group: x }", []],
  ];
  for (const [what, text, expected] of cases)
    it(`tells runs-on that is ${what}`, () => {
      assert.deepEqual(outline(job(text)), { runsOn: expected, steps: 2 });
    });

  it("has no labels and steps where there is no job to read", () => {
    const noAnchor = "jobs: { build: { runs-on: pod, steps: [*nobody] } }";
    for (const text of ["", "jobs: {}", "jobs: [", "- 1", "jobs: { build: 1 }", noAnchor])
      assert.deepEqual(outline(text), { runsOn: [], steps: 0 });
  });
});

describe("the .runner file", () => {
  it("names each label as one of the host, but bare where a colon is in it", () => {
    assert.deepEqual(runnerLabels(["self-hosted", "pod", "pool:abc", "pod"]), [
      "self-hosted:host",
      "pod:host",
      "pool:abc",
    ]);
  });

  it("leads to the loopback address and holds no credential", () => {
    const text = runnerFile({
      name: "gitea-task-42",
      address: "http://127.0.0.1:4711",
      labels: ["pod:host"],
    });
    assert.deepEqual(JSON.parse(text), {
      id: 1,
      uuid: "00000000-0000-0000-0000-000000000000",
      name: "gitea-task-42",
      token: "none",
      address: "http://127.0.0.1:4711",
      labels: ["pod:host"],
      ephemeral: false,
    });
  });

  it("lies where gitea-runner's configuration says", () => {
    assert.equal(runnerFileName("runner: { file: /var/lib/runner/reg }"), "/var/lib/runner/reg");
  });

  it("is .runner where the configuration says nothing", () => {
    for (const text of [
      "",
      "log: { level: info }",
      "runner:",
      "runner: { capacity: 1 }",
      'runner: { file: "" }',
    ])
      assert.equal(runnerFileName(text), ".runner");
  });

  it("cannot be found with a configuration that is no YAML", () => {
    assert.throws(() => runnerFileName("runner: ["), /not YAML/);
  });
});
