import assert from "node:assert/strict";
import { describe, it } from "mocha";
import type { ControllerLine } from "../../scripts/quick-start/controller-process.ts";
import { usePlatform } from "../support/platform.ts";

const capacity = 4;
const jobs = 40;

const many = `
on: push
jobs:
  many:
    runs-on: [self-hosted, pod]
    strategy:
      matrix:
        n: [${Array.from({ length: jobs }, (_, n) => n + 1).join(", ")}]
    steps:
      - run: echo "number \${{ matrix.n }}"
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

  it(`all run, never more than ${capacity} at once and oldest first, and do not slow the other backend`, async function () {
    this.timeout(300_000);
    const pods = await real.push("many", many);
    // The backlog is full: what else waits for a pod waits in Gitea.
    await real.line(({ msg, labels }) => msg === "declared to gitea" && String(labels) === "self-hosted,vm");
    const vm = await real.push("one", one);
    const [done] = await vm.jobs();
    assert.equal(done?.conclusion, "success");
    const meanwhile = await pods.jobs(() => true);
    const open = meanwhile.filter(({ status }) => status !== "completed").length;
    assert.ok(open > jobs / 2, `the virtual machine's job waited until only ${open} others were left`);

    const all = await pods.jobs();
    assert.equal(all.length, jobs);
    assert.deepEqual(new Set(all.map(({ conclusion }) => conclusion)), new Set(["success"]));
    assert.equal(mostAtOnce(real.lines, "pod"), capacity);
    const order = (fits: (line: ControllerLine) => boolean) =>
      real.lines
        .filter((line) => line["backend"] === "pod" && fits(line))
        .map(({ assignment }) => assignment);
    const stored = order(({ msg }) => msg === "task stored");
    const started = order(({ event }) => event === "executor_created");
    assert.equal(started.length, jobs);
    // Gitea hands out the oldest; from there on only those that start side by side may pass each other.
    for (const [place, assignment] of started.entries())
      assert.ok(
        Math.abs(stored.indexOf(assignment) - place) < capacity,
        `${String(assignment)} came as number ${stored.indexOf(assignment)} and started as number ${place}`,
      );
  });
});
