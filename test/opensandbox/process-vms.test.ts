import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, afterEach, before, describe, it } from "mocha";
import { makeRunFolder, type RunFolder } from "../../scripts/quick-start/run-folder.ts";
import { eventually } from "../support/eventually.ts";
import { processesMentioning } from "../support/find-processes.ts";
import { skipFor } from "../support/needs-tools.ts";
import { createProcessVms, type ProcessVm, processVmObstacle } from "../support/opensandbox/process-vms.ts";

const { signal } = new AbortController();

describe("a VM of processes", () => {
  let folder: RunFolder;
  let vms: string;
  let programs: string;
  const machines: ProcessVm[] = [];

  const started = async (changed: () => void = () => undefined) => {
    const host = createProcessVms({ folder: vms, image: { programs: [programs] } });
    const machine = await host.start(`vm-${machines.length}`, changed, signal);
    machines.push(machine);
    return machine;
  };
  const run = async (machine: ProcessVm, script: string, environment: Record<string, string> = {}) => {
    const command = ["/bin/sh", "-c", `exec /opt/opensandbox/bootstrap.sh /bin/sh -c '${script}'`];
    await machine.run({ command, environment });
  };
  const said = async (machine: ProcessVm, task = 1) =>
    await readFile(path.join(machine.folder, `task-${task}.log`), "utf8");

  before("make a folder", async function () {
    const obstacle = processVmObstacle();
    if (obstacle !== undefined) skipFor(this, obstacle);
    folder = await makeRunFolder();
    [vms, programs] = [await folder.below("vms"), await folder.below("bin")];
    const ofTheImage = "#!/bin/sh\necho of the image\n";
    await writeFile(path.join(programs, "of-the-image"), ofTheImage, { mode: 0o755 });
  });
  afterEach(async () => {
    await Promise.all(machines.map((machine) => machine.stop()));
  });
  after(async () => void (await folder?.remove()));

  it("runs a task through bootstrap.sh, with its environment, the image's programs and nothing of ours", async () => {
    process.env["OF_OURS"] = "secret";
    const machine = await started();
    await run(machine, "of-the-image; env; echo pid $$; exec setpriv --reuid 2000 --clear-groups id -u", {
      A: "b",
    });
    await eventually("it has said all", async () => /^2000$/m.test(await said(machine)));
    const text = await said(machine);
    delete process.env["OF_OURS"];
    assert.match(text, /^of the image$/m);
    assert.match(text, /^A=b$/m);
    assert.match(text, /^pid \d{1,2}$/m);
    assert.doesNotMatch(text, /OF_OURS/);
  });

  it("sees no processes but its own", async () => {
    const machine = await started();
    await run(machine, 'ls /proc | grep -c "^[0-9]"');
    await eventually("it has counted", async () => /^\d+$/m.test(await said(machine)));
    assert.ok(Number(await said(machine)) < 10, await said(machine));
  });

  it("runs a task beside one that runs", async () => {
    const machine = await started();
    await run(machine, "echo first; sleep 1000");
    await run(machine, "echo second");
    await eventually(
      "both have spoken",
      async () => (await said(machine)).includes("first") && (await said(machine, 2)).includes("second"),
    );
    assert.equal(machine.hasEnded(), false);
  });

  for (const [how, end] of [
    ["from outside", (machine: ProcessVm) => machine.stop()],
    ["from inside", (machine: ProcessVm) => run(machine, "kill 1")],
  ] as const)
    it(`ends ${how} with all that runs in it, and tells so`, async () => {
      const told = Promise.withResolvers<void>();
      const machine = await started(() => told.resolve());
      await run(machine, "setsid sleep 98765 & sleep 98765");
      await eventually("it sleeps", () => processesMentioning("sleep\u000098765").length >= 2);
      await end(machine);
      await told.promise;
      assert.equal(machine.hasEnded(), true);
      await machine.stop();
      assert.deepEqual(
        processesMentioning("sleep\u000098765").map(({ command }) => command),
        [],
      );
    });
});
