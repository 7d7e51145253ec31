import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { after, before } from "mocha";
import { type PlatformUnderTest, usePlatform } from "../platform.ts";
import { type FailPoint, formatFailPoint } from "./fail-point.ts";
import { nothingLeft } from "./nothing-left.ts";
import { createNumberedJobs, type NumberedJobs } from "./numbered-jobs.ts";
import { scaledTimes } from "./scaled-times.ts";

export type ChaosUnderTest = Pick<PlatformUnderTest, "platform" | "lines" | "line" | "push"> & {
  readonly numbered: NumberedJobs;
  /** A folder that every user may write to. */
  readonly shared: string;
  /** Starts the controller, killed before if it still runs. */
  start(changed?: Readonly<Record<string, string>>): Promise<void>;
  /** The same, to kill itself at this point, counted once so many tasks are stored. */
  startToFail(
    point: FailPoint,
    storedTasks: number,
    changed?: Readonly<Record<string, string>>,
  ): Promise<void>;
  /** Kills the controller; does nothing if it does not run. */
  kill(): Promise<void>;
  /** Waits until no job has left anything. */
  nothingLeft(): Promise<void>;
};

export type ChaosOptions = Pick<
  Parameters<typeof usePlatform>[0] & object,
  "controller" | "giteaSettings"
> & {
  /** Of the runs that `numbered` starts. */
  readonly sizes: readonly number[];
};

const preload = pathToFileURL(path.join(import.meta.dirname, "../fail-points.ts")).href;
const soon = () => AbortSignal.timeout(180_000);

/** Registers hooks that run one platform with scaled times for the surrounding file or `describe`. */
export function useChaos({ sizes, controller = {}, ...options }: ChaosOptions): ChaosUnderTest {
  const real = usePlatform({ ...options, controller: { RUNNER_TIMES: scaledTimes(), ...controller } });
  let made: { readonly shared: string; readonly numbered: NumberedJobs } | undefined;
  const get = () => {
    if (made === undefined) throw new Error("the jobs of this test are not made yet");
    return made;
  };
  before("make a repository", async function () {
    this.timeout(120_000);
    const shared = await mkdtemp(path.join(tmpdir(), "chaos-"));
    await chmod(shared, 0o777);
    made = { shared, numbered: await createNumberedJobs(real.platform.admin, shared, sizes) };
  });
  after(async () => {
    if (made !== undefined) await rm(made.shared, { recursive: true, force: true });
  });
  const kill = async () => {
    const running = real.platform.controller();
    running.signal("SIGKILL");
    await running.exited;
  };
  const start = async (changed: Readonly<Record<string, string>> = {}) => {
    await kill();
    // Most of a start is Node's reading of TypeScript.
    const NODE_COMPILE_CACHE = path.join(real.platform.folder, "compile-cache");
    await real.platform.restartController(soon(), { NODE_COMPILE_CACHE, ...changed });
  };
  return {
    get platform() {
      return real.platform;
    },
    get numbered() {
      return get().numbered;
    },
    get shared() {
      return get().shared;
    },
    lines: real.lines,
    line: (fits) => real.line(fits),
    push: (name, workflow) => real.push(name, workflow),
    start,
    startToFail: (point, storedTasks, changed = {}) =>
      start({
        ...changed,
        NODE_OPTIONS: `--import=${preload}`,
        FAIL_POINT: formatFailPoint(point),
        FAIL_POINT_STORED: String(storedTasks),
      }),
    kill,
    nothingLeft: () => nothingLeft(real.platform),
  };
}
