import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { nothingLeft } from "../support/chaos/nothing-left.ts";
import { stream } from "../support/chaos/quick-start-nats.ts";
import { eventually } from "../support/eventually.ts";
import { newerName, newerVersion } from "../support/newer-version/newer-version.ts";
import { writtenByNewer } from "../support/newer-version/written-by-newer.ts";
import { usePlatform } from "../support/platform.ts";

/** A job whose second step begins when one file is there, and which ends when the other one is. */
function gated(first: string, second: string): string {
  const until = (gate: string) => `while [ ! -e ${gate} ]; do sleep 0.1; done`;
  return `
on: push
jobs:
  long:
    runs-on: [self-hosted, pod]
    steps:
      - run: ${until(first)}; echo "the first step"
      - run: ${until(second)}; echo "the second step"
`;
}

describe("a controller that a newer version takes the place of, and that comes back", function () {
  this.timeout(240_000);
  const real = usePlatform({ controller: { POD_CAPACITY: "2" } });
  let folder = "";
  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "gate-"));
    await chmod(folder, 0o755);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  const soon = () => AbortSignal.timeout(180_000);
  /** A line of the controller that runs now. */
  const restarted = async (changed: Readonly<Record<string, string>> = {}) => {
    const seen = real.lines.length;
    await real.platform.restartController(soon(), changed);
    return (fits: (line: (typeof real.lines)[number]) => boolean) =>
      real.line((line) => real.lines.indexOf(line) >= seen && fits(line));
  };
  const found = async (line: Awaited<ReturnType<typeof restarted>>) =>
    (await line(({ msg, backend }) => msg === "executors found" && backend === "pod"))["alive"];

  it("loses no job of either: both read what the other has written, and more than they know", async () => {
    const [first, second] = [path.join(folder, "first"), path.join(folder, "second")];
    const workflow = gated(first, second);
    const early = await real.push("before-the-upgrade", workflow);
    await real.line(({ event }) => event === "acked");

    const newer = await restarted(newerVersion);
    const { version } = await newer(({ msg }) => msg === "runner is ready to lead");
    assert.match(String(version), newerName);
    assert.equal(await found(newer), 1);
    const meanwhile = await real.push("by-the-newer-version", workflow);
    await newer(({ event }) => event === "acked");
    // There is no slot for it.
    const waiting = await real.push("in-the-queue", workflow);
    await writeFile(first, "");
    const hasWritten = async () => {
      const { messages, values } = await writtenByNewer(real.platform.nats, stream);
      return messages === 1 && values === 3;
    };
    await eventually("it has written all three records, and the message of the one that waits", hasWritten);

    const back = await restarted();
    assert.equal(await found(back), 2);
    await writeFile(second, "");
    for (const run of [early, meanwhile, waiting]) {
      const [job] = await run.jobs();
      assert.equal(job?.conclusion, "success");
      const said = (await run.log(job)).filter((row) => /^the \w+ step$/.test(row));
      assert.deepEqual(said, ["the first step", "the second step"]);
    }
    await nothingLeft(real.platform);
  });
});
