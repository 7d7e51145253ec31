import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, it } from "mocha";
import { signalGroup } from "../../scripts/peers/process-group.ts";
import { eventually } from "../support/eventually.ts";

const script = path.join(import.meta.dirname, "../../scripts/setup-job-docker");
/** It waits for nothing: where Docker does not obey it would take ten seconds and more. */
const waitedMs = 8_000;

/** With stand-ins for Docker and for what needs root, in a folder; with the real ones in test/images/setup-job-docker.test.ts. */
describe("setup-job-docker", () => {
  let folder: string;
  let children: ChildProcess[];
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "setup-job-docker-"));
    children = [];
    for (const name of ["bin", "run", "tmp", "dev"]) await mkdir(at(name));
    await writeFile(at("mountinfo"), `20 1 8:1 / / rw - ext4 /dev/sda1 rw\n`);
    await writeFile(at("told"), "20.10.24 overlay2 2\n");
    await writeFile(at("script"), await withOwnPaths());
    await chmod(at("script"), 0o755);
    await program("id", "echo 0");
    await program(
      "docker",
      `echo "$*" >> ${at("docker.args")}`,
      hook("docker"),
      `[ -e ${at("up")} ] || { echo 'Cannot connect to the Docker daemon' >&2; exit 1; }`,
      `case $* in *--format*) cat ${at("told")} ;; *) echo Server: ;; esac`,
    );
    await program(
      "dockerd",
      `echo $$ > ${at("dockerd.pid")}; echo $$ > ${at("run/docker.pid")}; echo "$*" > ${at("dockerd.args")}`,
      `fds=$(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2 /proc/$$/fd/*); echo "$fds" > ${at("dockerd.fds")}`,
      `cut -d ' ' -f 6 /proc/$$/stat > ${at("dockerd.session")}`,
      `echo 'level=info msg="Starting up"'; echo 'level=warning msg="on stderr"' >&2`,
      `trap 'kill $!; rm -f ${at("up")}; exit 0' TERM`,
      hook("dockerd"),
      `touch ${at("up")}; sleep 1000 & wait`,
    );
    await program("mkfs.ext4", `echo "$*" > ${at("mkfs.args")}`, hook("mkfs"));
    await program("mountpoint", `grep -q " $3 " ${at("mountinfo")}`);
    await program(
      "mount",
      `echo "$*" > ${at("mount.args")}`,
      hook("mount"),
      `echo "31 20 7:0 / ${at("data")} rw - ext4 /dev/loop0 rw" >> ${at("mountinfo")}`,
    );
    await program(
      "umount",
      `echo "$*" >> ${at("umount.args")}`,
      `while [ $# -gt 1 ]; do shift; done; grep -v " $1 " ${at("mountinfo")} > ${at("rest")}; mv ${at("rest")} ${at("mountinfo")}`,
    );
    await program("mknod", `echo "$*" >> ${at("mknod.args")}`, hook("mknod"), `touch "$3"`);
    await program("findmnt", `echo "${at("data")} /dev/loop0 ext4 19.5G"`);
  });
  afterEach(async () => {
    for (const child of children) child.kill("SIGKILL");
    const pid = await dockerdPid();
    if (pid !== undefined) signalGroup(pid, "SIGKILL");
    await rm(folder, { recursive: true });
  });

  const at = (name: string) => path.join(folder, name);
  const read = (name: string) => readFile(at(name), "utf8");
  const program = async (name: string, ...content: readonly string[]) => {
    await writeFile(at(`bin/${name}`), `#!/bin/sh\n${content.join("\n")}\n`);
    await chmod(at(`bin/${name}`), 0o755);
  };
  /** A line of a stand-in that runs what the test has put there. */
  const hook = (name: string) => `if [ -e ${at(`on-${name}`)} ]; then . ${at(`on-${name}`)}; fi`;
  const on = (name: string, line: string) => writeFile(at(`on-${name}`), `${line}\n`);
  const mountData = async () =>
    writeFile(at("mountinfo"), `${await read("mountinfo")}30 20 8:2 / ${at("data")} rw - xfs /dev/sdb rw\n`);

  /** The script as it is, but for the places of this machine that it works on. */
  async function withOwnPaths(): Promise<string> {
    const places: Readonly<Record<string, string>> = {
      "data=/var/lib/docker ": `data=${at("data")} `,
      "image=/tmp/docker-data.img ": `image=${at("tmp/docker-data.img")} `,
      "log=/tmp/dockerd.log ": `log=${at("tmp/dockerd.log")} `,
      "run=/var/run ": `run=${at("run")} `,
      "devices=/dev ": `devices=${at("dev")} `,
      "cgroup=/sys/fs/cgroup\n": `cgroup=${at("cgroup")}\n`,
      "</proc/self/mountinfo\n": `<${at("mountinfo")}\n`,
    };
    let content = await readFile(script, "utf8");
    for (const [from, to] of Object.entries(places)) {
      assert.equal(content.split(from).length, 2, from);
      content = content.replace(from, to);
    }
    return content;
  }

  function start(more: NodeJS.ProcessEnv = {}, args: readonly string[] = []) {
    const env = { PATH: `${at("bin")}:/usr/bin:/bin`, ...more };
    const child = spawn(at("script"), args, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    children.push(child);
    const end = Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "exit").then(([code]: unknown[]) => code),
    ]).then(([stdout, stderr, code]) => ({ code, stdout, stderr }));
    return { child, end };
  }
  const run = async (...args: Parameters<typeof start>) => await start(...args).end;

  const isAlive = (pid: number) => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  const dockerdPid = async () => {
    const word = (await read("dockerd.pid").catch(() => "")).trim();
    return word === "" ? undefined : Number(word);
  };
  const exists = async (name: string) =>
    await stat(at(name)).then(
      () => true,
      () => false,
    );
  /** As it was before the script: but for its log, and the lock. */
  async function assertNothingLeft(): Promise<void> {
    const pid = await dockerdPid();
    assert.ok(pid === undefined || !isAlive(pid), "dockerd is left");
    assert.ok(!(await read("mountinfo")).includes("/dev/loop0"), "a mount is left");
    assert.ok(!(await exists("tmp/docker-data.img")), "the image is left");
    assert.deepEqual(
      (await readdir(at("run"))).filter((name) => name !== "setup-job-docker.lock"),
      [],
    );
  }

  it("B-92 has nothing to do where Docker answers", async () => {
    await writeFile(at("up"), "");
    await program("id", "echo 2000");
    const { code, stderr } = await run();
    assert.deepEqual([code, stderr], [0, "setup-job-docker: Docker is ready already, nothing to do\n"]);
    assert.equal(await dockerdPid(), undefined);
    assert.ok(!(await exists("run/setup-job-docker.lock")));
  });

  it("B-92 starts dockerd on an ext4 of its own, and tells what it is", async () => {
    const { code, stdout, stderr } = await run();
    assert.equal(code, 0, stderr);
    assert.equal(stdout, "");
    assert.equal(
      await read("dockerd.args"),
      `--host=unix://${at("run/docker.sock")} --storage-driver=overlay2\n`,
    );
    assert.equal(await read("mkfs.args"), `-q -F -- ${at("tmp/docker-data.img")}\n`);
    assert.equal(await read("mount.args"), `-t ext4 -o loop -- ${at("tmp/docker-data.img")} ${at("data")}\n`);
    assert.equal((await stat(at("tmp/docker-data.img"))).size, 20 * 1024 ** 3);
    assert.match(stderr, /^setup-job-docker: waiting for dockerd, at most 60 s$/m);
    assert.match(
      stderr,
      /data \/dev\/loop0 ext4 19\.5G\nsetup-job-docker: Docker 20\.10\.24 is ready: storage driver overlay2, cgroups of version 2\n$/,
    );
  });

  it("B-92 leaves dockerd running in a session of its own, without our files, its log where all can read it", async () => {
    await run();
    const pid = await dockerdPid();
    assert.ok(pid !== undefined && isAlive(pid));
    assert.equal(await read("dockerd.session"), `${pid}\n`);
    const [input, output, errors, ...others] = (await read("dockerd.fds")).trimEnd().split("\n");
    const log = at("tmp/dockerd.log");
    assert.deepEqual([input, output, errors], ["/dev/null", log, log]);
    assert.ok(!others.some((file) => file.endsWith("setup-job-docker.lock")), others.join(" "));
    assert.match(await read("tmp/dockerd.log"), /Starting up.*\n.*on stderr/);
    assert.equal((await stat(log)).mode & 0o777, 0o644);
  });

  it("B-92 is a no-op the second time", async () => {
    await run();
    const pid = await dockerdPid();
    const { code, stderr } = await run();
    assert.deepEqual([code, stderr], [0, "setup-job-docker: Docker is ready already, nothing to do\n"]);
    assert.equal(await dockerdPid(), pid);
  });

  it("B-92 starts one dockerd where it is called twice at once", async () => {
    await on("mkfs", `touch ${at("begun")}; while [ ! -e ${at("go")} ]; do sleep 0.02; done`);
    const first = start();
    await eventually("the first one works", () => exists("begun"), 50_000, 20);
    const second = start();
    let said = "";
    second.child.stderr.setEncoding("utf8").on("data", (chunk: string) => void (said += chunk));
    await eventually("the second one waits", () => said.includes("waiting for another"), 50_000, 20);
    await writeFile(at("go"), "");
    assert.deepEqual([(await first.end).code, (await second.end).code], [0, 0]);
    assert.match(said, /Docker is ready now, nothing to do\n$/);
  });

  it("B-92 uses what is mounted for the data, and leaves it mounted whatever happens", async () => {
    await mountData();
    assert.equal((await run()).code, 0);
    await rm(at("up"));
    signalGroup((await dockerdPid()) ?? 0, "SIGKILL");
    await on("dockerd", "exit 1");
    assert.equal((await run()).code, 1);
    assert.match(await read("mountinfo"), /\/dev\/sdb/);
    for (const name of ["mkfs.args", "mount.args", "mknod.args", "umount.args"])
      assert.ok(!(await exists(name)), name);
  });

  it("B-92 makes the loop devices that are missing", async () => {
    await writeFile(at("dev/loop3"), "");
    await run();
    const made = (number: number) => `-m 0660 ${at(`dev/loop${number}`)} b 7 ${number}`;
    assert.deepEqual((await read("mknod.args")).trimEnd().split("\n"), [
      `-m 0660 ${at("dev/loop-control")} c 10 237`,
      ...[0, 1, 2, 4, 5, 6, 7].map(made),
    ]);
  });

  it("B-92 takes size, driver and time to wait from its environment, and says when the size is more than there is", async () => {
    await writeFile(at("told"), "20.10.24 vfs 1\n");
    const more = { DOCKER_DATA_SIZE: "900T", DOCKER_STORAGE_DRIVER: "vfs", DOCKER_START_WAIT_SECONDS: "7" };
    await program("truncate", `echo "$*" > ${at("truncate.args")}`);
    const { code, stderr } = await run(more);
    assert.equal(code, 0, stderr);
    assert.equal(await read("truncate.args"), `-s 900T -- ${at("tmp/docker-data.img")}\n`);
    assert.match(await read("dockerd.args"), / --storage-driver=vfs\n/);
    assert.match(stderr, /Docker may get 900T, but only .* are free for .*docker-data\.img\n/);
    assert.match(stderr, /at most 7 s\n/);
  });

  it("B-92 needs no delegation where all controllers are enabled, and leaves processes where they are then", async () => {
    await mkdir(at("cgroup"));
    await writeFile(at("cgroup/cgroup.controllers"), "cpu memory\n");
    await writeFile(at("cgroup/cgroup.subtree_control"), "cpu memory pids\n");
    assert.equal((await run()).code, 0);
    assert.deepEqual((await readdir(at("cgroup"))).length, 2);
  });

  /** A folder that takes what a cgroup takes, and does nothing. */
  const cgroup = async (controllers: string) => {
    await mkdir(at("cgroup/init"), { recursive: true });
    await writeFile(at("cgroup/cgroup.controllers"), `${controllers}\n`);
    await writeFile(at("cgroup/cgroup.subtree_control"), "\n");
    await writeFile(at("cgroup/cgroup.procs"), "0\n4000001\n");
  };

  const failures: readonly (readonly [what: string, make: () => Promise<void>, message: RegExp])[] = [
    [
      "there are no loop devices and none can be made",
      () => on("mknod", "echo 'mknod: Operation not permitted' >&2; exit 1"),
      /mknod: Operation not permitted\nsetup-job-docker: cannot make the device .*\/dev\/loop-control\n$/,
    ],
    [
      "there is no space for its file system",
      () => on("mkfs", "echo 'mkfs.ext4: No space left on device' >&2; exit 1"),
      /No space left on device\nsetup-job-docker: cannot make an ext4 of 20G in .*docker-data\.img\n$/,
    ],
    [
      "it cannot be mounted",
      () => on("mount", "echo 'mount: failed to setup loop device' >&2; exit 32"),
      /failed to setup loop device\nsetup-job-docker: cannot mount .*docker-data\.img at .*data\n$/,
    ],
    ["no controllers are offered", () => cgroup(""), /^setup-job-docker: .*cgroup offers no controllers$/m],
    [
      "controllers do not get enabled",
      () => cgroup("cpu memory"),
      /^setup-job-docker: cannot enable the controllers \+cpu \+memory in .*cgroup: .*0 4000001 left there$/m,
    ],
    [
      "dockerd ends",
      () => on("dockerd", "echo 'failed to start daemon: driver not supported' >&2; exit 1"),
      /dockerd's log, [^]*\nsetup-job-docker: dockerd has ended: failed to start daemon: driver not supported\n$/,
    ],
    [
      "dockerd uses another driver",
      () => writeFile(at("told"), "20.10.24 vfs 2\n"),
      /dockerd's log, [^]*\nsetup-job-docker: dockerd uses the storage driver vfs, not overlay2\n$/,
    ],
    [
      "dockerd does not answer in time, and does not end when it is asked to",
      () => on("dockerd", "trap '' TERM; sleep 1000 & wait"),
      /dockerd's log, [^]*on stderr"\nsetup-job-docker: dockerd did not answer within 1 s\n$/,
    ],
    [
      "dockerd tells nothing of itself",
      () => writeFile(at("told"), ""),
      /dockerd's log, [^]*\nsetup-job-docker: dockerd does not tell what it is\n$/,
    ],
  ];
  for (const [what, make, message] of failures)
    it(`B-92 ends with 1, the log and nothing left when ${what}`, async () => {
      await make();
      const { code, stderr } = await run({ DOCKER_START_WAIT_SECONDS: "1" });
      assert.equal(code, 1);
      assert.match(stderr, message);
      await assertNothingLeft();
    });

  it("B-92 works again after it has failed", async () => {
    await on("dockerd", "exit 1");
    assert.equal((await run()).code, 1);
    await rm(at("on-dockerd"));
    assert.equal((await run()).code, 0);
  });

  it("says every ten seconds what it waits for", async () => {
    // The clock of the script stands still for it; only its own count goes on.
    const content = await read("script");
    await writeFile(at("script"), content.replace("next=10\n", "next=1\n"));
    await on("dockerd", "echo 'level=info msg=\"Loading containers: start.\"'; sleep 1.5");
    const { code, stderr } = await run();
    assert.equal(code, 0);
    assert.match(
      stderr,
      /still waiting for dockerd after 1 s: level=info msg="Loading containers: start\."\n/,
    );
  });

  for (const [when, name] of [
    ["it makes its file system", "mkfs"],
    ["it waits for dockerd", "dockerd"],
    ["docker hangs", "docker"],
  ] as const)
    for (const [signal, code] of [
      ["SIGTERM", 143],
      ["SIGINT", 130],
    ] as const)
      it(`B-92 obeys ${signal} at once while ${when}, and leaves nothing`, async () => {
        await on(name, `trap '' TERM INT; touch ${at("begun")}; sleep 1000`);
        const { child, end } = start();
        await eventually("it has begun", () => exists("begun"), 50_000, 20);
        const begun = performance.now();
        child.kill(signal);
        await once(child, "exit");
        const took = performance.now() - begun;
        assert.equal(child.exitCode, code);
        assert.ok(took < waitedMs, `it took ${took} ms`);
        await assertNothingLeft();
        assert.match((await end).stderr, new RegExp(`setup-job-docker: ended by ${signal}\n`));
      });

  const wrong: readonly (readonly [string, NodeJS.ProcessEnv, RegExp])[] = [
    ["no size", { DOCKER_DATA_SIZE: "much" }, /DOCKER_DATA_SIZE is no size: 'much'/],
    ["an option as driver", { DOCKER_STORAGE_DRIVER: "-x" }, /DOCKER_STORAGE_DRIVER is no driver: '-x'/],
    ["no number of seconds", { DOCKER_START_WAIT_SECONDS: "soon" }, /no number of seconds: 'soon'/],
  ];
  for (const [what, more, message] of wrong)
    it(`says at once what is wrong with ${what}`, async () => {
      const { code, stderr } = await run(more);
      assert.equal(code, 2);
      assert.match(stderr, message);
    });

  it("says so where it is not root, and where there is no dockerd", async () => {
    await program("id", "echo 2000");
    const other = await run();
    assert.deepEqual([other.code, other.stderr], [2, "setup-job-docker: has to be run as root\n"]);
    await rm(at("bin/dockerd"));
    const none = await run();
    assert.deepEqual([none.code, none.stderr], [2, "setup-job-docker: not on PATH: dockerd\n"]);
  });

  it("B-92 has nothing to do where Docker answers, also where nothing could start one", async () => {
    await writeFile(at("up"), "");
    await rm(at("bin/dockerd"));
    const { code, stderr } = await run();
    assert.deepEqual([code, stderr], [0, "setup-job-docker: Docker is ready already, nothing to do\n"]);
  });

  it("explains itself, and takes no arguments", async () => {
    const { code, stdout } = await run({}, ["--help"]);
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: setup-job-docker\n/);
    assert.match((await run({}, ["--now"])).stderr, /unknown argument --now/);
  });
});
