import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { writeSecret } from "../../scripts/quick-start/secrets.ts";
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

  /** From the fetch of each of some jobs to its claim, in milliseconds, with what the OpenSandbox server does. */
  const startsOf = async (name: string): Promise<readonly number[]> => {
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
      starts.every((ms) => ms > 0 && ms < 30_000),
      starts.join(),
    );
    process.stdout.write(`      stored → claimed, ${name}: ${starts.join(", ")} ms\n`);
    return starts;
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
    lab.server.component.pause();
    try {
      await real.platform.restartController(soon(), withVms());
      await startsOf("hanging");
    } finally {
      lab.server.component.resume();
    }
  });

  it("run while it refuses our key", async () => {
    const wrong = await writeSecret(lab.folder.path, "wrong-key", "wrong");
    await real.platform.restartController(soon(), { ...withVms(), OPENSANDBOX_API_KEY_FILE: wrong });
    await startsOf("refusing");
  });

  it("run while it is away, from the controller's start on", async () => {
    await lab.server.stop();
    await real.platform.restartController(soon(), withVms());
    await startsOf("away");
  });
});
