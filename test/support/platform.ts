import { after, afterEach, before } from "mocha";
import { createReport } from "../../scripts/peers/report.ts";
import { prepareSpire } from "../../scripts/peers/start-spire.ts";
import type { ControllerLine } from "../../scripts/quick-start/controller-process.ts";
import { startPlatform, type Platform, type PlatformOptions } from "../../scripts/quick-start/platform.ts";
import { preparePeers } from "../../scripts/quick-start/prepare-peers.ts";
import { createControllerLines, telling } from "./controller-lines.ts";
import { type PushedRun, pushRun } from "./push-run.ts";

/** Everything real on loopback, for one test file. */
export type PlatformUnderTest = {
  readonly platform: Platform;
  /** What the controller has logged so far. */
  readonly lines: readonly ControllerLine[];
  /** The first line, logged already or yet to come, that fits. Rejects after 100 s. */
  line(fits: (line: ControllerLine) => boolean): Promise<ControllerLine>;
  /** Pushes a workflow into a new repository of this name; resolves with how to wait for its jobs. */
  push(name: string, workflow: string): Promise<PushedRun>;
};

/** The first time, Gitea is compiled, and SPIRE where it is asked for. */
const startMs = 60 * 60_000;

/** Registers hooks that run one platform for the surrounding file or `describe`. */
export function usePlatform(
  options: Omit<PlatformOptions, "peers" | "onControllerLine"> = {},
): PlatformUnderTest {
  let started: Platform | undefined;
  const told = createControllerLines();
  const get = () => {
    if (started === undefined) throw new Error("the platform of this test is not started yet");
    return started;
  };
  before("start Gitea, NATS and the controller", async function () {
    this.timeout(startMs);
    const signal = AbortSignal.timeout(startMs);
    const report = createReport();
    const peers = await preparePeers(report, signal);
    const spire =
      options.spire === undefined
        ? {}
        : { spire: { peers: await prepareSpire(report, signal), ...options.spire } };
    const onControllerLine = told.add;
    started = await startPlatform({ ...options, ...spire, peers, onControllerLine }, signal);
  });
  afterEach("tell what the controller logged", function () {
    if (this.currentTest?.state !== "failed") return;
    for (const line of telling(told.lines)) process.stderr.write(`${JSON.stringify(line)}\n`);
  });
  after("stop all of it", async function () {
    this.timeout(120_000);
    await started?.stop();
  });
  return {
    get platform() {
      return get();
    },
    lines: told.lines,
    line: (fits) => told.line(fits),
    push: (name, workflow) => pushRun(get().admin, name, workflow),
  };
}
