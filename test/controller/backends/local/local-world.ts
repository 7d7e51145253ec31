import { once } from "node:events";
import { access, chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  createLocalBackend,
  type LocalBackend,
} from "../../../../controller/backends/local/local-backend.ts";
import type { LocalIdentity } from "../../../../controller/backends/local/local-identity.ts";
import type { LocalBackendOptions } from "../../../../controller/backends/local/local-options.ts";
import { entryFile, socketPath } from "../../../../controller/backends/local/workload-entry.ts";
import { systemClock } from "../../../../controller/platform/clock.ts";
import { createRecordingLogger, type RecordingLogger } from "../../../fakes/recording-logger.ts";
import type { BackendUnderTest } from "../../../support/backend-contract.ts";
import { anExecutorMetadata, testTrustDomain } from "../../../support/builders.ts";

/**
 * Stands in for the bootstrap: says that it runs, starts something that outlives it, and ends when told to. Both
 * sleeps end by themselves before long, should a test fail to end them.
 */
const standIn = `#!/bin/sh
trap 'exit 0' TERM USR1
sleep 60 &
touch "$HOME/ready"
sleep 60 &
wait $!
`;

export type LocalWorld = BackendUnderTest & {
  readonly backend: LocalBackend;
  readonly options: LocalBackendOptions;
  readonly workloadApiFolder: string;
  readonly log: RecordingLogger;
  /** A further backend over the same folder; it looks after its executors until the world ends. */
  another(overrides?: Partial<LocalBackendOptions>): Promise<LocalBackend>;
  /** Stops looking after executors, as the controller's end does. */
  stopLooking(): Promise<void>;
  fileOf(name: string): string;
  homeOf(name: string): string;
  /** executor.json */
  stored(name: string): Promise<StoredFile>;
  /** Resolves when the executor's program has done its first things. */
  ready(name: string): Promise<void>;
};

export type StoredFile = {
  labels: Record<string, string>;
  annotations: Record<string, string>;
  createdAt: number;
  uid: number | null;
  process: { pid: number; startTime: number; bootId: string } | null;
  killedFor: string | null;
  ended: string | null;
  deadlineAt?: number;
  cause?: string;
};

/** A state folder that every user can reach, and a local backend that runs a stand-in for the bootstrap. */
export async function makeLocalWorld(overrides: WorldOptions = {}): Promise<LocalWorld> {
  const folder = await realpath(await mkdtemp(path.join(tmpdir(), "local-")));
  try {
    return await makeWorldIn(folder, overrides);
  } catch (error) {
    await rm(folder, { recursive: true });
    throw error;
  }
}

type WorldOptions = Partial<LocalBackendOptions> & {
  readonly script?: string;
  /** Where executors get their identities; a Workload API that is not there unless given. */
  readonly identities?: IdentitiesOfWorld;
};

export type IdentitiesOfWorld = {
  /** `folder` is a fresh one, open to everybody. */
  identityIn(folder: string): LocalIdentity;
  /** Whether an executor of that name is registered. */
  registered(name: string): Promise<boolean>;
};

function developmentIdentities(folder: string): IdentitiesOfWorld {
  return {
    identityIn: () => ({ kind: "workload-api", folder }),
    registered: (name) => exists(entryFile(folder, name)),
  };
}

async function makeWorldIn(
  folder: string,
  { script = standIn, identities: given, ...others }: WorldOptions,
): Promise<LocalWorld> {
  await chmod(folder, 0o755);
  const workloadApiFolder = path.join(folder, "wl");
  const identities = given ?? developmentIdentities(workloadApiFolder);
  const bootstrap = path.join(folder, "bootstrap.sh");
  await writeFile(bootstrap, script);
  await chmod(bootstrap, 0o755);
  const log = createRecordingLogger();
  let passedMs = 0;
  const options: LocalBackendOptions = {
    kind: "pod",
    owner: anExecutorMetadata().owner,
    trustDomain: testTrustDomain,
    folder: path.join(folder, "state"),
    identity: identities.identityIn(workloadApiFolder),
    program: { node: "/bin/sh", bootstrap },
    giteaRunnerBinary: "/usr/bin/true",
    timeoutSeconds: 3600,
    nodeEnv: undefined,
    clock: { ...systemClock, now: () => systemClock.now() + passedMs },
    random: Math.random,
    log,
    ...others,
  };

  let looking = new AbortController();
  let runs: Promise<void>[] = [];
  const another = async (more: Partial<LocalBackendOptions> = {}) => {
    const backend = await createLocalBackend({ ...options, ...more });
    runs.push(backend.run(looking.signal));
    return backend;
  };
  const stopLooking = async () => {
    looking.abort(new Error("the controller ends"));
    await Promise.all(runs);
    looking = new AbortController();
    runs = [];
  };

  const executors = path.join(options.folder, "executors");
  const fileOf = (name: string) => path.join(executors, name, "executor.json");
  const markOf = (name: string) => `CI_EXECUTOR_FOLDER=${path.join(executors, name)}`;
  const homeOf = (name: string) => path.join(executors, name, "home");
  const stored = async (name: string) => JSON.parse(await readFile(fileOf(name), "utf8")) as StoredFile;
  const ready = (name: string) => until(() => exists(path.join(homeOf(name), "ready")));
  const sockets: Server[] = [];

  return {
    backend: await another(),
    options,
    workloadApiFolder,
    log,
    another,
    stopLooking,
    fileOf,
    homeOf,
    stored,
    ready,
    restarted: async () => {
      await stopLooking();
      return await another();
    },
    ofOwner: (owner) => another({ owner }),
    makeBindable: async (name) => {
      const { identity } = options;
      const socket = identity.kind === "spire" ? identity.agentSocket : socketPath(workloadApiFolder, name);
      await until(() => identities.registered(name));
      if (await exists(socket)) return;
      await mkdir(path.dirname(socket), { recursive: true });
      const server = createServer().listen(socket);
      sockets.push(server);
      await once(server, "listening");
    },
    end: async (name) => {
      await ready(name);
      process.kill((await stored(name)).process?.pid ?? Number.NaN, "SIGUSR1");
    },
    spoil: async (name) => {
      const file = await stored(name);
      file.annotations["ci.ddupan.top/spiffe-id"] += "-of-somebody-else";
      await writeFile(fileOf(name), JSON.stringify(file));
    },
    now: () => options.clock.now(),
    pass: async (ms) => void (passedMs += ms),
    // Longer than even a busy machine takes for a start.
    lifeMs: 600_000,
    running: (name) => runningWith(markOf(name)),
    remains: async (name) => {
      const files = path.dirname(fileOf(name));
      return [
        ...(await runningWith(markOf(name))),
        ...((await exists(files)) ? [files] : []),
        ...((await identities.registered(name)) ? [`registration of ${name}`] : []),
      ];
    },
    [Symbol.asyncDispose]: async () => {
      await stopLooking();
      for (const server of sockets) server.close();
      for (const name of (await exists(executors)) ? await readdir(executors) : [])
        await endAll(markOf(name));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The pids of the living processes with this in their environment; not with the code that is tested. */
export async function runningWith(variable: string): Promise<readonly string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^[0-9]+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const environment = await environmentOf(pid);
      if (!environment.split("\0").includes(variable)) return [];
      return /^State:\s+[ZX]/m.test(await textOf(`/proc/${pid}/status`)) ? [] : [pid];
    }),
  );
  return found.flat();
}

/** Empty if it cannot be read; waits for that of a program that is just being started. */
async function environmentOf(pid: string): Promise<string> {
  for (;;) {
    const text = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => undefined);
    if (text !== "") return text ?? "";
    const stat = await textOf(`/proc/${pid}/stat`);
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [memory, start, end] = [fields[20], fields[47], fields[48]];
    if (memory === undefined || memory === "0" || (end !== "0" && start === end)) return "";
    await delay(1);
  }
}

async function endAll(variable: string): Promise<void> {
  await until(async () => {
    const pids = await runningWith(variable);
    for (const pid of pids) {
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // It has ended by itself.
      }
    }
    return pids.length === 0;
  });
}

/** Looks until it is so; for what nobody tells of. Fails after 50 s. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 50_000; !(await condition());) {
    if (Date.now() > deadline) throw new Error(`this did not come true: ${condition.toString()}`);
    await delay(5);
  }
}

export async function exists(file: string): Promise<boolean> {
  try {
    await access(file);
    return true;
  } catch {
    return false;
  }
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch {
    return "";
  }
}

/** The pids of the living processes that have this uid in whatever way. */
export async function runningAs(uid: number): Promise<readonly string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^[0-9]+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const status = await textOf(`/proc/${pid}/status`);
      const uids = /^Uid:\s+(.*)$/m.exec(status)?.[1]?.split(/\s+/) ?? [];
      return uids.includes(String(uid)) && !/^State:\s+[ZX]/m.test(status) ? [pid] : [];
    }),
  );
  return found.flat();
}
