import path from "node:path";
import { after, afterEach, before } from "mocha";
import type { GiteaSettings } from "../../../scripts/peers/gitea-settings.ts";
import { openSandboxObstacle } from "../../../scripts/peers/opensandbox/prepare-server.ts";
import { createReport } from "../../../scripts/peers/report.ts";
import type { ServerProcess } from "../../../scripts/peers/server-process.ts";
import { startController } from "../../../scripts/quick-start/controller-process.ts";
import { type ControllerLines, createControllerLines, telling } from "../controller-lines.ts";
import { skipFor } from "../needs-tools.ts";
import type { PoolController } from "./pool-controller.ts";
import { processVmObstacle } from "./process-vms.ts";
import { prepareVmPlatform, startVmPlatform, type VmPlatform } from "./vm-platform.ts";

export type VmController = Pick<ControllerLines, "lines" | "line"> & { readonly process: ServerProcess };

export type VmPlatformUnderTest = {
  readonly platform: VmPlatform;
  /** Starts the controller of a pool of real processes; it ends when the tests are over. */
  pool(name: string, capacity: number): Promise<PoolController>;
  /** Starts a controller with these variables, which then leads; it is stopped when the tests are over. */
  start(environment: Readonly<Record<string, string>>): Promise<VmController>;
};

/** The first time, Kubernetes is compiled. */
const startMs = 90 * 60_000;
const { signal } = new AbortController();

/** Registers hooks that run all that controllers with VMs need. Skips the tests where that cannot run. */
export function useVmPlatform(options: { readonly giteaSettings?: GiteaSettings } = {}): VmPlatformUnderTest {
  const stack = new AsyncDisposableStack();
  const controllers: VmController[] = [];
  let platform: VmPlatform | undefined;
  const get = () => {
    if (platform === undefined) throw new Error("the platform is there from the first test on");
    return platform;
  };
  before("start Gitea, NATS, SPIRE and OpenSandbox", async function () {
    this.timeout(startMs);
    const obstacle = processVmObstacle() ?? (await openSandboxObstacle(process.env, signal));
    if (obstacle !== undefined) skipFor(this, obstacle);
    const parts = await prepareVmPlatform(createReport(), signal);
    platform = await startVmPlatform(parts, options, stack, signal);
  });
  afterEach("tell what the controllers logged", function () {
    if (this.currentTest?.state !== "failed") return;
    for (const { lines } of controllers)
      for (const line of telling(lines)) process.stderr.write(`${JSON.stringify(line)}\n`);
  });
  after("stop all of it", async function () {
    this.timeout(400_000);
    await stack.disposeAsync();
  });
  return {
    get platform() {
      return get();
    },
    pool: async (pool, capacity) => {
      const { lab, vms } = get();
      return stack.use(await lab.pool({ pool, capacity, host: vms }));
    },
    start: async (environment) => {
      const told = createControllerLines();
      const folder = path.join(get().lab.folder.path, `controller-${controllers.length}`);
      const started = await startController({ environment, folder, onLine: told.add }, signal);
      const controller = { process: started, lines: told.lines, line: told.line };
      controllers.push(controller);
      stack.defer(() => started.stop());
      return controller;
    },
  };
}
