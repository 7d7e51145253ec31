import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { writeSecret } from "../../scripts/quick-start/secrets.ts";
import { eventually } from "../support/eventually.ts";
import { usePlatform } from "../support/platform.ts";
import { useOpenSandbox } from "../support/opensandbox/use-opensandbox.ts";

const soon = () => AbortSignal.timeout(60_000);
const jobs = 3;
const workflow =
  "on: push\njobs:\n  one:\n    runs-on: [self-hosted, pod]\n    steps:\n      - run: echo it runs\n";

describe("jobs in Pods, in one process with VMs", function () {
  this.timeout(240_000);
  const lab = useOpenSandbox();
  const real = usePlatform({ controller: { COMPONENTS: "scheduler,pod-worker", POD_CAPACITY: "1" } });

  /** Runs some jobs, one by one, and tells how long each took from its fetch to its claim. */
  const startsOf = async (name: string): Promise<void> => {
    const starts: number[] = [];
    for (let number = 1; number <= jobs; number++) {
      const from = real.lines.length;
      const run = await real.push(`${name}-${number}`, workflow);
      const [job] = await run.jobs();
      assert.equal(job?.conclusion, "success");
      const at = (fits: (line: (typeof real.lines)[number]) => boolean) =>
        Date.parse(String(real.lines.slice(from).find(fits)?.["time"]));
      starts.push(at(({ event }) => event === "runner_claimed") - at(({ msg }) => msg === "task stored"));
    }
    assert.ok(
      starts.every((ms) => ms > 0),
      starts.join(),
    );
    process.stdout.write(`      stored → claimed, ${name}: ${starts.join(", ")} ms\n`);
  };
  /** Starts the controller anew, for VMs as well, and runs the jobs; the trouble is there all the time. */
  const troubled = async (name: string, changed: Readonly<Record<string, string>> = {}) => {
    const from = real.lines.length;
    await real.platform.restartController(soon(), { ...withVms(), ...changed });
    await startsOf(name);
    await eventually("the VMs' trouble is seen", () =>
      real.lines.slice(from).some(({ msg }) => msg === "listing sandboxes failed"),
    );
  };
  const withVms = () => ({
    COMPONENTS: "scheduler,pod-worker,vm-worker",
    VM_BACKEND: "opensandbox",
    OPENSANDBOX_API: lab.server.url.href,
    OPENSANDBOX_API_KEY_FILE: lab.server.keyFile,
  });

  it("run while nobody has VMs", async () => {
    await startsOf("without-vms");
  });

  it("run while the OpenSandbox server does not answer, from the controller's start on", async () => {
    await lab.server.component.pause();
    try {
      await troubled("hanging");
    } finally {
      lab.server.component.resume();
    }
  });

  it("run while it refuses our key", async () => {
    const wrong = await writeSecret(lab.folder.path, "wrong-key", "wrong");
    await troubled("refusing", { OPENSANDBOX_API_KEY_FILE: wrong });
  });

  it("run while it is away, from the controller's start on", async () => {
    await lab.server.stop();
    await troubled("away");
  });
});
