import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import type { ControllerLine } from "../../scripts/quick-start/controller-process.ts";
import { usePlatform } from "../support/platform.ts";

const capacity = 4;
const jobs = 40;

/** They begin at once, and go on when the file is there. */
const many = (gate: string) => `
on: push
jobs:
  many:
    runs-on: [self-hosted, pod]
    strategy:
      matrix:
        n: [${Array.from({ length: jobs }, (_, n) => n + 1).join(", ")}]
    steps:
      - run: |
          while [ ! -e ${gate} ]; do sleep 0.1; done
          echo "number \${{ matrix.n }}"
`;
const one = `
on: push
jobs:
  one:
    runs-on: [self-hosted, vm]
    steps:
      - run: echo "a virtual machine's job"
`;

/** The most executors of a backend that lived at once, going by the order of the log. */
function mostAtOnce(lines: readonly ControllerLine[], backend: string): number {
  let now = 0;
  let most = 0;
  for (const line of lines) {
    if (line["backend"] !== backend) continue;
    if (line.msg === "executor started") most = Math.max(most, ++now);
    if (line.msg === "executor ended") now--;
  }
  return most;
}

describe("more jobs than places", () => {
  const real = usePlatform({ controller: { POD_CAPACITY: String(capacity) } });
  let gates = "";
  before(async () => {
    gates = await mkdtemp(path.join(tmpdir(), "gate-"));
    await chmod(gates, 0o755);
  });
  after(() => rm(gates, { recursive: true, force: true }));

  it(`all run, never more than ${capacity} at once and oldest first, and do not slow the other backend`, async function () {
    this.timeout(300_000);
    const gate = path.join(gates, "open");
    const pods = await real.push("many", many(gate));
    // The backlog is full: what else waits for a pod waits in Gitea.
    await real.line(({ msg, labels }) => msg === "declared to gitea" && String(labels) === "self-hosted,vm");
    const vm = await real.push("one", one);
    const [done] = await vm.jobs();
    assert.equal(done?.conclusion, "success");
    const meanwhile = await pods.jobs(() => true);
    assert.deepEqual(
      meanwhile.filter(({ status }) => status === "completed"),
      [],
    );
    await writeFile(gate, "");

    const all = await pods.jobs(undefined, 240_000);
    assert.equal(all.length, jobs);
    assert.deepEqual(new Set(all.map(({ conclusion }) => conclusion)), new Set(["success"]));
    assert.equal(mostAtOnce(real.lines, "pod"), capacity);
    const order = (fits: (line: ControllerLine) => boolean) =>
      real.lines
        .filter((line) => line["backend"] === "pod" && fits(line))
        .map(({ assignment }) => assignment);
    const stored = order(({ msg }) => msg === "task stored");
    // Its slot, not its executor: of those that start side by side one may take as long as several others together.
    const started = [...new Set(order(({ event }) => event === "capacity_acquired"))];
    assert.equal(started.length, jobs);
    // Gitea hands out the oldest; from there on only those that start side by side may pass each other.
    for (const [place, assignment] of started.entries())
      assert.ok(
        Math.abs(stored.indexOf(assignment) - place) < capacity,
        `${String(assignment)} came as number ${stored.indexOf(assignment)} and started as number ${place}`,
      );
  });
});
