import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "mocha";
import { parse } from "yaml";
import { BackendError } from "../../../../controller/backends/backend.ts";
import { entryFile, parseEntry, socketPath } from "../../../../controller/backends/local/workload-entry.ts";
import { systemClock } from "../../../../controller/platform/clock.ts";
import { anExecutorRequest, reaches } from "../../../support/backend-contract.ts";
import { canGiveUids } from "./if-root.ts";
import { exists, type LocalWorld, makeLocalWorld, runningAs, until } from "./local-world.ts";

const { signal } = new AbortController();
const request = anExecutorRequest("pod");
const terminal = (message: RegExp) => (error: unknown) =>
  error instanceof BackendError && error.kind === "terminal" && message.test(error.message);

/** Starts a controller of its own and kills it with its whole process group, as Ctrl-C or an OOM kill may. */
async function createdByKilledController(world: LocalWorld): Promise<string> {
  // Two controllers never have one folder at a time.
  await world.stopLooking();
  const program = path.join(import.meta.dirname, "controller-program.ts");
  const controller = spawn(process.execPath, [program, JSON.stringify(world.options)], {
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  const said = once(controller.stdout.setEncoding("utf8"), "data") as Promise<[string]>;
  const died = once(controller, "exit").then(([code]) => assert.fail(`the controller exited with ${code}`));
  died.catch(() => undefined);
  const [line] = await Promise.race([said, died]);
  process.kill(-(controller.pid ?? Number.NaN), "SIGKILL");
  await once(controller, "exit");
  return line.trim();
}

describe("the local backend", () => {
  it("B-75 gives an executor the environment of its request and nothing of the controller's own", async () => {
    process.env["GITEA_RUNNER_TOKEN"] = "the-controller's-own-secret";
    try {
      await using world = await makeLocalWorld({ ownUids: false });
      const { name } = await world.backend.create(request, signal);
      // The start is told a little before the environment can be seen.
      await world.ready(name);
      const { process: main } = await world.stored(name);
      const text = await readFile(`/proc/${main?.pid}/environ`, "utf8");
      const environment = Object.fromEntries(
        text
          .split("\0")
          .filter((entry) => entry !== "")
          .map((entry) => {
            const sign = entry.indexOf("=");
            return [entry.slice(0, sign), entry.slice(sign + 1)];
          }),
      );
      const home = world.homeOf(name);
      assert.deepEqual(environment, {
        ...request.environment,
        SPIFFE_ENDPOINT_SOCKET: `unix://${socketPath(world.workloadApiFolder, name)}`,
        GITEA_RUNNER_BINARY: "/usr/bin/true",
        GITEA_RUNNER_CONFIG_FILE: path.join(path.dirname(home), "gitea-runner.yaml"),
        CI_EXECUTOR_FOLDER: path.dirname(home),
        PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        HOME: home,
        TMPDIR: path.join(home, "tmp"),
        USER: "executor",
        LOGNAME: "executor",
        LANG: "C.UTF-8",
      });
    } finally {
      delete process.env["GITEA_RUNNER_TOKEN"];
    }
  });

  it("B-06 writes the capability neither into its files nor into its log", async () => {
    await using world = await makeLocalWorld({ ownUids: false });
    const { name } = await world.backend.create(request, signal);
    const secret = request.environment.CI_RUNNER_CAPABILITY;
    const files = [
      world.fileOf(name),
      path.join(world.homeOf(name), "../gitea-runner.yaml"),
      entryFile(world.workloadApiFolder, name),
    ];
    for (const file of files) assert.ok(!(await readFile(file, "utf8")).includes(secret), file);
    assert.ok(!world.log.text().includes(secret));
  });

  it("says at its start that it is not for untrusted code", async () => {
    await using world = await makeLocalWorld();
    const [line] = world.log.lines;
    assert.equal(line?.level, "warn");
    assert.match(line.message, /never for untrusted code/);
  });

  it("writes gitea-runner's configuration for one job without a cache server", async () => {
    await using world = await makeLocalWorld({ timeoutSeconds: 14400 });
    const { name } = await world.backend.create(request, signal);
    const file = path.join(world.homeOf(name), "../gitea-runner.yaml");
    assert.deepEqual(parse(await readFile(file, "utf8")), {
      log: { level: "info" },
      runner: { capacity: 1, timeout: "14400s" },
      cache: { enabled: false },
      host: { workdir_parent: path.join(world.homeOf(name), "work") },
    });
    assert.equal((await stat(file)).mode & 0o777, 0o644);
  });

  it("keeps what an executor says in a file", async () => {
    const script = "#!/bin/sh\necho out\necho err >&2\npwd\nexit 3\n";
    await using world = await makeLocalWorld({ ownUids: false, script });
    const { name } = await world.backend.create(request, signal);
    const { state } = await reaches(world.backend, name, "ended");
    assert.equal(state.reason, "exited with code 3");
    const log = path.join(world.homeOf(name), "../log");
    assert.equal(await readFile(log, "utf8"), `out\nerr\n${world.homeOf(name)}\n`);
  });

  it("says which signal ended an executor, also after a restart", async () => {
    await using world = await makeLocalWorld({ ownUids: false });
    const { name } = await world.backend.create(request, signal);
    process.kill((await world.stored(name)).process?.pid ?? Number.NaN, "SIGKILL");
    await reaches(world.backend, name, "ended");
    await until(async () => (await world.stored(name)).ended !== null);
    const { state } = await reaches(await world.restarted(), name, "ended");
    assert.equal(state.reason, "killed by SIGKILL");
  });

  it("leaves executors alive when the controller is killed, and finds them again", async () => {
    await using world = await makeLocalWorld({ ownUids: false });
    const name = await createdByKilledController(world);
    await world.ready(name);
    const again = await world.restarted();
    const found = await again.create(request, signal);
    assert.equal(found.state.phase, "running");
    await world.end(name);
    const { state } = await reaches(again, name, "ended");
    assert.equal(state.reason, "its process is gone");
    assert.deepEqual(await world.running(name), []);
    await again.delete(name, signal);
    assert.deepEqual(await world.remains(name), []);
  });

  it("finds the process that a controller started and did not live to write down", async () => {
    await using world = await makeLocalWorld({ ownUids: false });
    const { name } = await world.backend.create(request, signal);
    await world.ready(name);
    await world.stopLooking();
    const file = await world.stored(name);
    await writeFile(world.fileOf(name), JSON.stringify({ ...file, process: null }));

    const again = await world.another();
    await reaches(again, name, "running");
    await until(async () => (await world.stored(name)).process !== null);
    assert.deepEqual((await world.stored(name)).process, file.process);
    await again.delete(name, signal);
    assert.deepEqual(await world.remains(name), []);
  });

  it("takes an executor for starting that was written down a moment ago, and then for never started", async () => {
    let ahead = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + ahead };
    await using world = await makeLocalWorld({ ownUids: false, clock });
    const { name } = await world.backend.create(request, signal);
    await world.stopLooking();
    const file = await world.stored(name);
    await world.backend.kill(name, "it is gone", signal);
    await writeFile(world.fileOf(name), JSON.stringify({ ...file, process: null }));

    await reaches(world.backend, name, "starting");
    await assert.rejects(world.backend.create(request, signal), /does not run/);
    ahead = 10_000;
    const { state } = await reaches(world.backend, name, "ended");
    assert.equal(state.reason, "its process was never started");
  });

  it("takes no other process with the same pid for the executor, and does not touch it", async () => {
    await using world = await makeLocalWorld({ ownUids: false });
    const other = spawn("sleep", ["60"], { detached: true, stdio: "ignore" });
    try {
      const { name } = await world.backend.create(request, signal);
      await world.stopLooking();
      const file = await world.stored(name);
      await world.backend.kill(name, "it is gone", signal);
      assert.ok(file.process !== null);
      // Start times are counted in hundredths of a second: the other process may have begun in the same one.
      const reused = { ...file.process, pid: other.pid, startTime: file.process.startTime + 1 };
      await writeFile(world.fileOf(name), JSON.stringify({ ...file, process: reused }));

      const again = await world.another();
      const { state } = await reaches(again, name, "ended");
      assert.equal(state.reason, "its process is gone");
      await again.delete(name, signal);
      assert.equal(other.exitCode, null);
      assert.equal(other.signalCode, null);
      process.kill(other.pid ?? Number.NaN, 0);
    } finally {
      other.kill("SIGKILL");
    }
  });

  it("lets an executor end in order, and kills one that does not", async () => {
    const script = `#!/bin/sh
trap 'touch "$HOME/asked"' TERM
touch "$HOME/ready"
while :; do sleep 0.02; done
`;
    await using world = await makeLocalWorld({ ownUids: false, script, killGraceMs: 60_000 });
    const { name } = await world.backend.create(request, signal);
    await world.ready(name);
    const killed = world.backend.kill(name, "cancelled", signal);
    await until(() => exists(path.join(world.homeOf(name), "asked")));
    assert.notDeepEqual(await world.running(name), []);
    await world.pass(60_000);
    await killed;
    assert.deepEqual(await world.running(name), []);
  });

  it("leaves gitea-runner no more time than its executor has", async () => {
    await using world = await makeLocalWorld({ timeoutSeconds: 14400 });
    const { name } = await world.backend.create({ ...request, deadlineAt: Date.now() + 60_000 }, signal);
    const text = await readFile(path.join(world.homeOf(name), "../gitea-runner.yaml"), "utf8");
    const { runner } = parse(text) as { readonly runner: { readonly timeout: string } };
    const seconds = Number(/^(\d+)s$/.exec(runner.timeout)?.[1]);
    assert.ok(seconds > 40 && seconds <= 60, runner.timeout);
  });

  it("brings a kill to its end that a controller before it began", async () => {
    await using world = await makeLocalWorld({ ownUids: false });
    const { name } = await world.backend.create(request, signal);
    await world.ready(name);
    await world.stopLooking();
    const file = await world.stored(name);
    await writeFile(world.fileOf(name), JSON.stringify({ ...file, killedFor: "cancelled" }));
    const { state } = await reaches(await world.another(), name, "ended");
    assert.equal(state.reason, "cancelled");
    assert.deepEqual(await world.running(name), []);
  });

  it("ends what left the process group but kept the environment", async () => {
    const script = `#!/bin/sh
setsid sleep 60 &
touch "$HOME/ready"
wait
`;
    await using world = await makeLocalWorld({ ownUids: false, script });
    const { name } = await world.backend.create(request, signal);
    await world.ready(name);
    await until(async () => (await world.running(name)).length === 2);
    await world.backend.kill(name, "cancelled", signal);
    assert.deepEqual(await world.running(name), []);
  });

  it("kills an executor past its deadline by itself", async () => {
    let ahead = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + ahead };
    await using world = await makeLocalWorld({ ownUids: false, clock, timeoutSeconds: 60 });
    const { name } = await world.backend.create(request, signal);
    await world.ready(name);
    ahead = 60_000;
    const { state } = await reaches(world.backend, name, "ended");
    assert.equal(state.reason, "deadline");
    assert.deepEqual(await world.running(name), []);
  });

  it("B-41 shows the executors of one kind to that kind's backend only, in one folder", async () => {
    await using world = await makeLocalWorld({ ownUids: false });
    const vm = await world.another({ kind: "vm" });
    const { name: pod } = await world.backend.create(request, signal);
    const other = anExecutorRequest("vm", { assignment: { taskId: 43n } });
    const { name: machine } = await vm.create(other, signal);
    for (const [backend, name] of [
      [world.backend, pod],
      [vm, machine],
    ] as const) {
      const { executors, invalid } = await backend.list(signal);
      assert.deepEqual([executors.map((executor) => executor.name), invalid], [[name], []]);
    }
    await assert.rejects(vm.delete(pod, signal), terminal(/belongs to another/));
    assert.notDeepEqual(await world.running(pod), []);
  });

  for (const [what, text, message] of [
    ["is no JSON", "{", /is not JSON/],
    ["is empty", "", /is not JSON/],
    ["names a uid that is not an executor's", '{"uid":0}', /uid/],
  ] as const) {
    it(`reports an executor whose file ${what}, and removes nothing of it`, async () => {
      await using world = await makeLocalWorld({ ownUids: false });
      const { name } = await world.backend.create(request, signal);
      const file = await world.stored(name);
      const written = text.startsWith('{"') ? { ...file, ...(JSON.parse(text) as object) } : undefined;
      await writeFile(world.fileOf(name), written === undefined ? text : JSON.stringify(written));
      const { executors, invalid } = await world.backend.list(signal);
      assert.deepEqual(executors, []);
      assert.equal(invalid[0]?.name, name);
      assert.match(invalid[0].reason, message);
      assert.ok(Math.abs(invalid[0].createdAt - systemClock.now()) < 60_000, "its age is known all the same");
      for (const act of [
        () => world.backend.delete(name, signal),
        () => world.backend.kill(name, "x", signal),
        () => world.backend.create(request, signal),
      ])
        await assert.rejects(act, terminal(/remove .* by hand/));
      assert.notDeepEqual(await world.running(name), []);
    });
  }

  it("does not take a folder in which nothing was ever started for an executor, and creates into it", async () => {
    await using world = await makeLocalWorld({ ownUids: false });
    const { name } = await world.backend.create(request, signal);
    await world.backend.delete(name, signal);
    await mkdir(path.dirname(world.fileOf(name)));
    assert.deepEqual(await world.backend.list(signal), { executors: [], invalid: [] });
    await world.backend.create(request, signal);
    await reaches(world.backend, name, "running");
  });

  it("leaves nothing behind when the program cannot be started", async () => {
    const program = { node: "/nowhere/node", bootstrap: "main.ts" };
    await using world = await makeLocalWorld({ ownUids: false, program });
    await assert.rejects(world.backend.create(request, signal), terminal(/starting its process/));
    assert.deepEqual(await world.backend.list(signal), { executors: [], invalid: [] });
    assert.deepEqual(await world.remains("gitea-task-42-1-00000000"), []);
  });

  it("refuses names that are none, before they become paths", async () => {
    await using world = await makeLocalWorld({ ownUids: false });
    for (const name of ["../state", "", ".", "a/b"]) {
      await assert.rejects(world.backend.delete(name, signal), terminal(/no name of an executor/));
      await assert.rejects(world.backend.kill(name, "x", signal), terminal(/no name of an executor/));
    }
    assert.ok(await exists(world.options.folder));
  });

  it("refuses to run in production", async () => {
    await assert.rejects(makeLocalWorld({ nodeEnv: "production" }), /refused with NODE_ENV=production/);
  });

  it("refuses a folder in which a socket's path would not fit", async () => {
    const identity = { kind: "workload-api", folder: `/tmp/${"d".repeat(60)}` } as const;
    await assert.rejects(makeLocalWorld({ ownUids: false, identity }), /use a shorter folder/);
  });
});

describe("executors with uids of their own", () => {
  if (!canGiveUids("each executor gets a uid of its own")) return;

  it("runs each executor under a free uid and gid of its own, without other groups", async () => {
    await using world = await makeLocalWorld({ ownUids: true });
    const first = await world.backend.create(request, signal);
    const second = await world.backend.create(
      anExecutorRequest("pod", { assignment: { taskId: 43n } }),
      signal,
    );
    const files = [await world.stored(first.name), await world.stored(second.name)];
    const uids = files.map(({ uid }) => uid ?? Number.NaN);
    assert.equal(new Set(uids).size, 2);
    for (const { uid, process: main } of files) {
      assert.ok(uid !== null && uid >= 60600 && uid <= 60999);
      const status = await readFile(`/proc/${main?.pid}/status`, "utf8");
      assert.match(status, new RegExp(`^Uid:\\s+${uid}\\s+${uid}\\s+${uid}\\s+${uid}$`, "m"));
      assert.match(status, new RegExp(`^Gid:\\s+${uid}\\s+${uid}\\s+${uid}\\s+${uid}$`, "m"));
      assert.match(status, /^Groups:\s*$/m);
    }
  });

  it("registers the executor's uid, and gives it its home but not its files", async () => {
    await using world = await makeLocalWorld({ ownUids: true });
    const { name } = await world.backend.create(request, signal);
    const { uid } = await world.stored(name);
    const entry = await readFile(entryFile(world.workloadApiFolder, name), "utf8");
    assert.deepEqual(parseEntry(entry), { spiffeId: request.metadata.assignment.spiffeId, uid });
    const modes = async (file: string) => {
      const info = await stat(file);
      return [info.uid, (info.mode & 0o777).toString(8)];
    };
    assert.deepEqual(await modes(world.homeOf(name)), [uid, "700"]);
    assert.deepEqual(await modes(world.fileOf(name)), [0, "600"]);
    assert.deepEqual(await modes(path.dirname(world.fileOf(name))), [0, "755"]);
  });

  it("ends also what left the process group and its environment behind", async () => {
    const script = `#!/bin/sh
env -i setsid sleep 60 &
touch "$HOME/ready"
trap 'exit 0' USR1
sleep 60 &
wait $!
`;
    await using world = await makeLocalWorld({ ownUids: true, script });
    const { name } = await world.backend.create(request, signal);
    const uid = (await world.stored(name)).uid ?? Number.NaN;
    await world.ready(name);
    await until(async () => (await runningAs(uid)).length > (await world.running(name)).length);
    await world.end(name);
    await reaches(world.backend, name, "ended");
    assert.deepEqual(await runningAs(uid), []);
  });

  it("finds an executor of a killed controller again and ends it", async () => {
    await using world = await makeLocalWorld({ ownUids: true });
    const name = await createdByKilledController(world);
    const uid = (await world.stored(name)).uid ?? Number.NaN;
    await world.ready(name);
    const again = await world.restarted();
    await again.kill(name, "silence", signal);
    assert.deepEqual(await runningAs(uid), []);
    const { state } = await reaches(again, name, "ended");
    assert.equal(state.reason, "silence");
  });

  it("does not give the uid of an executor again that has ended but is still there", async () => {
    // Another one in each run, for those who run these tests at the same time.
    const chance = Math.random();
    await using world = await makeLocalWorld({ ownUids: true, random: () => chance });
    const { name } = await world.backend.create(request, signal);
    await world.backend.kill(name, "silence", signal);
    const next = anExecutorRequest("pod", { assignment: { taskId: 43n } });
    const other = await world.backend.create(next, signal);
    assert.notEqual((await world.stored(other.name)).uid, (await world.stored(name)).uid);
  });

  it("refuses a state folder that other users cannot reach, and names what is closed", async () => {
    await using world = await makeLocalWorld();
    const closed = path.join(world.options.folder, "closed");
    await mkdir(closed);
    await chmod(closed, 0o700);
    const folder = path.join(closed, "state");
    await assert.rejects(
      world.another({ ownUids: true, folder }),
      (error) => error instanceof Error && error.message.startsWith(`${closed} is closed to other users`),
    );
  });
});
