import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSecureContext } from "node:tls";
import { createFacadeCalls } from "../../controller/bootstrap/facade-calls.ts";
import { createFacadeConnection } from "../../controller/bootstrap/facade-client.ts";
import { runBootstrap } from "../../controller/bootstrap/run-bootstrap.ts";
import type { RunnerProgram } from "../../controller/bootstrap/run-gitea-runner.ts";
import type { Times } from "../../controller/bootstrap/times.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import type { Result, Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeFacade, type FakeFacade, serveFacade } from "../fakes/fake-facade.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import { aTask } from "./a-task.ts";

/** What gitea-runner was started with. */
export type Trace = {
  readonly argv: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
  readonly registration: Readonly<Record<string, unknown>>;
};

/** A bootstrap in this process, with a fake facade behind HTTP/2 and a folder of its own. */
export type BootstrapUnderTest = AsyncDisposable & {
  readonly facade: FakeFacade;
  readonly folder: string;
  readonly log: RecordingLogger;
  readonly stop: AbortController;
  readonly program: RunnerProgram;
  run(overrides?: Partial<RunnerProgram>): Promise<Result>;
  /** Every start of the fake gitea-runner. */
  traces(): Promise<readonly Trace[]>;
  /** Puts a shell script into the folder, which is first on the programs' PATH. */
  script(name: string, ...lines: readonly string[]): Promise<string>;
};

/** Short where a test waits for the end of it; what no test waits for is long enough for any machine. */
const times: Times = {
  identity: 40_000,
  start: 40_000,
  claim: 40_000,
  probeEvery: 10,
  probe: 2_000,
  call: 2_000,
  retryEvery: 10,
  beatEvery: 10_000,
  jobStarted: 40_000,
  stopGrace: 40_000,
  orphanGrace: 1_000,
  answer: 1_000,
  room: 1_000,
  logs: 2_000,
  deliver: 40_000,
};

export type BootstrapSettings = {
  /** The part that the fake gitea-runner plays. */
  readonly part?: "succeeds" | "dies" | "waits";
  readonly logRows?: number;
  readonly task?: Task;
  readonly times?: Partial<Times>;
};

export async function bootstrapUnderTest(settings: BootstrapSettings = {}): Promise<BootstrapUnderTest> {
  const { part = "succeeds", logRows = 0, task = aTask() } = settings;
  const folder = await mkdtemp(join(tmpdir(), "bootstrap-"));
  const facade = createFakeFacade({ task, logRows });
  const server = await serveFacade(facade);
  const log = createRecordingLogger();
  const stop = new AbortController();
  const caller = { assignmentId: "gitea-task-42", capability: "1.open-sesame", instance: "instance-1" };
  const calls = createFacadeCalls(
    createFacadeConnection(server.url, caller, server.sessions),
    systemClock,
    log,
  );
  const traceFile = join(folder, "trace");
  const script: BootstrapUnderTest["script"] = async (name, ...lines) => {
    const file = join(folder, name);
    await writeFile(file, ["#!/bin/sh", ...lines, ""].join("\n"), { mode: 0o755 });
    return file;
  };
  const fake = join(import.meta.dirname, "../fakes/fake-gitea-runner.ts");
  const program: RunnerProgram = {
    binary: await script("gitea-runner", `exec '${process.execPath}' '${fake}' "$@"`),
    configFile: join(folder, "config.yaml"),
    registrationFile: join(folder, ".runner"),
    environment: {
      PATH: `${folder}:${process.env["PATH"] ?? ""}`,
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      FAKE_RUNNER_PART: part,
      FAKE_RUNNER_TRACE: traceFile,
      FAKE_RUNNER_FILE: join(folder, ".runner"),
    },
  };
  return {
    facade,
    folder,
    log,
    stop,
    program,
    script,
    run: (overrides = {}) =>
      runBootstrap(
        {
          calls,
          taskId: 42n,
          name: "gitea-task-42",
          program: { ...program, ...overrides },
          secureContext: createSecureContext(),
          clock: systemClock,
          times: { ...times, ...settings.times },
          log,
        },
        stop.signal,
      ),
    traces: async () => {
      const text = await readFile(traceFile, "utf8").catch(() => "");
      return text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Trace);
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort(new Error("the test is over"));
      await server[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
