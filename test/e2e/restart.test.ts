import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile, chmod } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { usePlatform, type PlatformUnderTest } from "../support/platform.ts";

/** A job that says that it runs, and goes on when a file is there. */
function gated(gate: string): string {
  return `
on: push
jobs:
  long:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          echo "before the restart"
          while [ ! -e ${gate} ]; do sleep 0.1; done
          echo "after the restart"
`;
}

describe("a controller that is restarted while a job runs", () => {
  const real: PlatformUnderTest = usePlatform({ controller: { POD_CAPACITY: "1" } });
  let folder = "";
  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "gate-"));
    await chmod(folder, 0o755);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  const claimedTimes = () =>
    real.lines.filter(({ msg, event }) => msg === "assignment transition" && event === "acked").length;

  for (const [name, end] of [
    ["stopped in order", "SIGTERM"],
    ["killed", "SIGKILL"],
  ] as const) {
    it(`B-81 loses nothing when it is ${name}: the job goes on, its slot and claim are restored`, async () => {
      const gate = path.join(folder, end);
      const claimedBefore = claimedTimes();
      const run = await real.push(`restart-${end.toLowerCase()}`, gated(gate));
      while (claimedTimes() === claimedBefore) {
        const seen = real.lines.length;
        await real.line((line) => real.lines.indexOf(line) >= seen);
      }
      const old = real.platform.controller();
      old.signal(end);
      assert.equal(await old.exited, end === "SIGTERM" ? "exit code 0" : "SIGKILL");

      const seen = real.lines.length;
      await real.platform.restartController(AbortSignal.timeout(180_000));
      const found = await real.line(
        (line) =>
          real.lines.indexOf(line) >= seen && line.msg === "executors found" && line["backend"] === "pod",
      );
      assert.equal(found["alive"], 1);
      // The only slot is taken: a second job has to wait for the first.
      const second = await real.push(`second-${end.toLowerCase()}`, gated(gate));
      await real.line((line) => real.lines.indexOf(line) >= seen && line.msg === "task stored");
      await writeFile(gate, "");
      const [long] = await run.jobs();
      assert.equal(long?.conclusion, "success");
      const log = await run.log(long);
      assert.equal(log.filter((line) => line === "before the restart").length, 1);
      assert.equal(log.filter((line) => line === "after the restart").length, 1);
      const [next] = await second.jobs();
      assert.equal(next?.conclusion, "success");
      const at = (event: string, text: string) =>
        real.lines.findIndex(
          (line, index) => index >= seen && (line.msg === text || line["event"] === event),
        );
      assert.ok(at("", "task over") < at("executor_created", ""), "the second executor came too early");
    });
  }
});
