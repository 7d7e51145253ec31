import { create, type JsonObject } from "@bufbuild/protobuf";
import {
  Result,
  TaskSchema,
  type Task,
  type UpdateLogRequest,
  type UpdateTaskRequest,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { aTaskContext } from "../support/builders.ts";

/** What people see of a job or step: a status while it is open, its conclusion once it is over. */
export type Shown = "queued" | "in_progress" | "success" | "failure" | "cancelled" | "skipped";

export type FakeRunner = {
  readonly id: bigint;
  readonly uuid: string;
  readonly token: string;
  readonly name: string;
  labels: readonly string[];
  version: string;
  /** It declared `cancelling`: a cancel waits for its word. */
  cancelling: boolean;
  disabled: boolean;
};

export type JobOptions = {
  readonly runsOn: readonly string[];
  /** One unless given. */
  readonly steps?: number;
  /** The payload; made of `runsOn` and `steps` unless given. */
  readonly workflow?: string;
  readonly context?: JsonObject;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly vars?: Readonly<Record<string, string>>;
};

export type FakeStep = {
  shown: Shown;
  started: boolean;
  logIndex: bigint;
  logLength: bigint;
};

type FakeTask = {
  readonly id: bigint;
  readonly runner: FakeRunner;
  readonly job: FakeJob;
  readonly startedAt: number;
  /** The zombie sweep counts from here. */
  updatedAt: number;
  result: Result;
  /** A cancel waits for the runner's word: the task still runs, and answers say that it is cancelled. */
  cancelling: boolean;
  readonly steps: FakeStep[];
  readonly outputs: Map<string, string>;
  readonly log: string[];
  archived: boolean;
  /** How many reports with a result came. */
  ends: number;
};

export type FakeJob = {
  readonly id: number;
  readonly options: JobOptions;
  task: FakeTask | undefined;
  over: Shown | undefined;
};

/** The state behind a fake Gitea: what its RunnerService does, and what its pages and its crons do. */
export type GiteaModel = ReturnType<typeof createGiteaModel>;

const maxOutputBytes = 1024 * 1024;
const maxKeyBytes = 255;

export function createGiteaModel(now: () => number) {
  const runners: FakeRunner[] = [];
  const jobs: FakeJob[] = [];
  const tasks = new Map<bigint, FakeTask>();
  let tasksVersion = 1n;
  let logStoreWorks = true;

  const ownTask = (runner: FakeRunner, id: bigint, unknown: string, foreign: string): FakeTask => {
    const task = tasks.get(id);
    if (task === undefined) throw giteaError("Internal", unknown);
    if (task.runner !== runner) throw giteaError("Internal", foreign);
    return task;
  };

  const close = (task: FakeTask, result: Result) => {
    task.result = result;
    task.cancelling = false;
    task.job.over = shownResult(result);
  };

  /** What Gitea does itself with a task that it ends: the steps are closed as well. */
  const stop = (task: FakeTask, result: Result) => {
    close(task, result);
    for (const step of task.steps)
      if (step.shown === "queued" || step.shown === "in_progress") step.shown = shownResult(result);
  };

  const pick = (runner: FakeRunner): FakeJob | undefined =>
    runner.disabled
      ? undefined
      : jobs.find(
          ({ task, over, options }) =>
            task === undefined &&
            over === undefined &&
            options.runsOn.every((label) => runner.labels.includes(label)),
        );

  const claim = (runner: FakeRunner, job: FakeJob): FakeTask => {
    const task: FakeTask = {
      id: BigInt(tasks.size + 1),
      runner,
      job,
      startedAt: now(),
      updatedAt: now(),
      result: Result.UNSPECIFIED,
      cancelling: false,
      steps: Array.from({ length: job.options.steps ?? 1 }, () => ({
        shown: "queued",
        started: false,
        logIndex: 0n,
        logLength: 0n,
      })),
      outputs: new Map(),
      log: [],
      archived: false,
      ends: 0,
    };
    tasks.set(task.id, task);
    job.task = task;
    return task;
  };

  const updateSteps = (task: FakeTask, { state }: UpdateTaskRequest) => {
    for (const [index, step] of task.steps.entries()) {
      const reported = state?.steps.find(({ id }) => id === BigInt(index));
      if (reported !== undefined) {
        step.logIndex = reported.logIndex;
        step.logLength = reported.logLength;
        step.started = reported.startedAt !== undefined;
      }
      if (reported !== undefined && reported.result !== Result.UNSPECIFIED)
        step.shown = shownResult(reported.result);
      // The trap: also a step that was over, when a report leaves it out.
      else if (step.started) step.shown = "in_progress";
    }
  };

  return {
    runners,
    jobs,
    tasks,

    addRunner: (labels: readonly string[] = [], name = "runner"): FakeRunner => {
      const id = BigInt(runners.length + 1);
      const runner: FakeRunner = {
        id,
        uuid: `00000000-0000-4000-8000-${String(id).padStart(12, "0")}`,
        token: `runner-token-${id}`,
        name,
        labels,
        version: "",
        cancelling: false,
        disabled: false,
      };
      runners.push(runner);
      return runner;
    },
    /** Its tasks stay as they are, until a sweep. */
    removeRunner: (runner: FakeRunner) => {
      runners.splice(runners.indexOf(runner), 1);
    },
    setDisabled: (runner: FakeRunner, disabled: boolean) => {
      runner.disabled = disabled;
      tasksVersion++;
    },

    /** Whether closed logs can be stored. */
    setLogStore: (works: boolean) => {
      logStoreWorks = works;
    },

    /** A job that waits from now on. */
    addJob: (options: JobOptions): FakeJob => {
      const job: FakeJob = { id: jobs.length + 1, options, task: undefined, over: undefined };
      jobs.push(job);
      tasksVersion++;
      return job;
    },
    /** The button on the run's page. */
    cancel: ({ id }: FakeJob) => {
      const job = jobs.find((one) => one.id === id);
      const task = job?.task;
      if (job === undefined || job.over !== undefined) return;
      if (task === undefined) job.over = "cancelled";
      else if (task.runner.cancelling) task.cancelling = true;
      else stop(task, Result.CANCELLED);
    },
    /** As if its repository were deleted. */
    removeJob: (job: FakeJob) => {
      jobs.splice(jobs.indexOf(job), 1);
      if (job.task !== undefined) tasks.delete(job.task.id);
    },
    /** The crons that end what was silent, or took, for longer. */
    sweep: ({ zombieMs = Infinity, endlessMs = Infinity }) => {
      for (const task of tasks.values()) {
        if (task.result !== Result.UNSPECIFIED) continue;
        if (now() - task.updatedAt < zombieMs && now() - task.startedAt < endlessMs) continue;
        stop(task, task.cancelling ? Result.CANCELLED : Result.FAILURE);
        task.archived = true;
      }
    },
    shown: ({ task, over }: FakeJob): { readonly job: Shown; readonly steps: readonly Shown[] } => ({
      job: over ?? (task === undefined ? "queued" : "in_progress"),
      steps: task?.steps.map((step) => step.shown) ?? [],
    }),

    runnerOf: (uuid: string | null, token: string | null): FakeRunner => {
      const runner = runners.find((one) => one.uuid === uuid && one.token === token);
      if (runner === undefined) throw giteaError("Unauthenticated", "unregistered runner");
      return runner;
    },
    /** `busy`: too many others pick. The signal tells that the caller has gone, which gives the job back. */
    fetchTask: (runner: FakeRunner, version: bigint, busy: boolean, signal: AbortSignal) => {
      const latest = tasksVersion;
      if (version === latest) return { tasksVersion: latest };
      if (busy) return { tasksVersion: version };
      const job = pick(runner);
      if (job === undefined || signal.aborted) return { tasksVersion: latest };
      return { task: wireTask(claim(runner, job)), tasksVersion: latest };
    },
    updateTask: (runner: FakeRunner, request: UpdateTaskRequest) => {
      const { state } = request;
      // A nil dereference in Gitea.
      if (state === undefined) throw new Error("HTTP 500");
      const task = ownTask(
        runner,
        state.id,
        "update task: resource does not exist",
        "update task: invalid runner for task",
      );
      if (state.result !== Result.UNSPECIFIED) task.ends++;
      if (task.result === Result.UNSPECIFIED) {
        updateSteps(task, request);
        task.updatedAt = now();
        if (state.result !== Result.UNSPECIFIED)
          close(task, task.cancelling ? Result.CANCELLED : state.result);
      }
      for (const [key, value] of Object.entries(request.outputs)) {
        const fits = Buffer.byteLength(key) <= maxKeyBytes && Buffer.byteLength(value) <= maxOutputBytes;
        if (fits && !task.outputs.has(key)) task.outputs.set(key, value);
      }
      const result = task.cancelling ? Result.CANCELLED : task.result;
      return { state: { id: task.id, result }, sentOutputs: [...task.outputs.keys()] };
    },
    updateLog: (runner: FakeRunner, { taskId, index, rows, noMore }: UpdateLogRequest) => {
      const unknown = `get task: task with id ${taskId}: resource does not exist`;
      const task = ownTask(runner, taskId, unknown, "invalid runner for task");
      const stored = BigInt(task.log.length);
      // A gap, even with `no_more`.
      if (index > stored) return { ackIndex: stored };
      const fresh = rows.slice(Number(stored - index));
      if (fresh.length === 0 && (!noMore || task.archived)) return { ackIndex: stored };
      if (task.archived) throw giteaError("AlreadyExists", "log file has been archived");
      // Gitea has written the rows by then, but does not count them.
      if (noMore && !logStoreWorks)
        throw giteaError("Internal", "transfer logs: storage save: permission denied");
      task.log.push(...fresh.map(({ content }) => content));
      if (fresh.length > 0) task.updatedAt = now();
      task.archived = noMore;
      return { ackIndex: BigInt(task.log.length) };
    },
  };
}

/** Gitea's errors are gRPC's, which its Connect server does not know: code `unknown`, all of it in the text. */
function giteaError(code: string, text: string): Error {
  return new Error(`rpc error: code = ${code} desc = ${text}`);
}

const shownResults: ReadonlyMap<Result, Shown> = new Map([
  [Result.SUCCESS, "success"],
  [Result.CANCELLED, "cancelled"],
  [Result.SKIPPED, "skipped"],
]);

function shownResult(result: Result): Shown {
  return shownResults.get(result) ?? "failure";
}

function wireTask({ id, job }: FakeTask): Task {
  const { options } = job;
  const token = `task-token-${id}`;
  return create(TaskSchema, {
    id,
    workflowPayload: Buffer.from(options.workflow ?? workflowOf(options)),
    context: { ...aTaskContext(), run_id: String(job.id), token, ...options.context },
    secrets: { GITEA_TOKEN: token, GITHUB_TOKEN: token, ...options.secrets },
    vars: { ...options.vars },
  });
}

function workflowOf({ runsOn, steps = 1 }: JobOptions): string {
  const lines = Array.from({ length: steps }, (_, index) => `      - run: echo ${index}`);
  const head = ['"on": push', "jobs:", "  build:", `    runs-on: ${JSON.stringify(runsOn)}`, "    steps:"];
  return `${[...head, ...lines].join("\n")}\n`;
}
