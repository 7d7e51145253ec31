import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import { type DockerPeer, dockerObstacle, prepareDocker } from "../../scripts/peers/docker/prepare-docker.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { type DockerLab, labObstacle, startDockerLab } from "../support/images/docker-lab.ts";
import { skipFor } from "../support/needs-tools.ts";

const setup = "/mnt/scripts/setup-job-docker";

/** A root file system with a shell, for `docker import`. */
const importShell = `
files=$(ldd /bin/sh /bin/cat | grep -o '/[^ :]*' | sort -u)
tar -c -h -C / $(for file in /bin/sh /bin/cat $files; do echo ".$file"; done | sort -u) 2>/dev/null | docker import - shell >/dev/null
`;

/** With a real dockerd, in namespaces as a privileged container has them. */
describe("setup-job-docker with a real dockerd", () => {
  let docker: DockerPeer;
  let lab: DockerLab;
  before("have a dockerd", async function () {
    this.timeout(10 * 60_000);
    const obstacle = (await dockerObstacle(process.env)) ?? (await labObstacle());
    if (obstacle !== undefined) skipFor(this, obstacle);
    docker = await prepareDocker({ report: createReport() }, new AbortController().signal);
  });
  beforeEach("make namespaces", async () => {
    lab = await startDockerLab(docker.folders);
  });
  afterEach("end all in them", async () => {
    const { folder } = lab;
    await lab[Symbol.asyncDispose]();
    const { stdout } = await promisify(execFile)("losetup", ["--all"]);
    assert.ok(!stdout.includes(folder) && !stdout.includes("docker-data.img"), stdout);
  });

  const ok = async (script: string, environment: Readonly<Record<string, string>> = {}) => {
    const { exitCode, stdout, stderr } = await lab.run(script, environment);
    assert.equal(exitCode, 0, `${script}\n${stdout}\n${stderr}`);
    return { stdout, stderr };
  };
  /** All that a Docker leaves where it is not put away. */
  const state = async () => {
    const { stdout } = await ok(
      "cut -d ' ' -f 5- /proc/self/mountinfo | sed 's, shared:[0-9]*,,'; losetup -a; ls -A /tmp /run | grep -v -e lock -e dockerd.log -e '^docker$'; " +
        "ls -A /run/docker 2>/dev/null | grep -v -e containerd -e runtime -e netns -e plugins -e swarm -e libnetwork; " +
        "ps -e -o comm | grep -E 'docker|containerd' || true",
    );
    return stdout;
  };
  const fails = async (
    how: string,
    expected: RegExp,
    { environment = {}, prepare = "true" }: { environment?: Record<string, string>; prepare?: string } = {},
  ) => {
    await ok(prepare);
    const clean = await state();
    const { exitCode, stderr } = await lab.run(how, environment);
    assert.match(stderr, expected);
    assert.equal(exitCode, 1, stderr);
    assert.equal(await state(), clean);
    return stderr;
  };

  it("B-92 starts it on a loop-backed ext4, where images are built and run with the controllers of their own", async () => {
    const { stderr } = await ok(setup);
    assert.match(stderr, /^setup-job-docker: \/var\/lib\/docker \/dev\/loop\d+ +ext4 /m);
    assert.match(stderr, /Docker \S+ is ready: storage driver overlay2, cgroups of version 2\n$/);
    const { stdout: enabled } = await ok(
      "cat /sys/fs/cgroup/cgroup.controllers /sys/fs/cgroup/cgroup.subtree_control",
    );
    const [offered, delegated] = enabled.trimEnd().split("\n");
    assert.equal(delegated, offered);
    const { stdout } = await ok(
      `${importShell}
      mkdir /tmp/source; printf 'FROM shell\\nRUN echo built-ok > /made\\n' > /tmp/source/Dockerfile
      DOCKER_BUILDKIT=0 docker build -q -t made /tmp/source > /dev/null
      docker run --rm made /bin/sh -c 'cat /made /proc/self/cgroup'`,
    );
    assert.match(stdout, /^built-ok\n(?:\d+:.*:\/\n)*0::\/\n$/);
  });

  it("B-92 uses the directory that is mounted for the data", async () => {
    await ok(`mkdir -p "$FOLDER/data" /var/lib/docker; mount --bind "$FOLDER/data" /var/lib/docker`, {
      FOLDER: lab.folder,
    });
    const { stderr } = await ok(setup);
    assert.match(stderr, /storage driver overlay2/);
    const { stdout } = await ok(
      `${importShell} docker run --rm shell /bin/sh -c 'echo inner-ok'; ls /tmp; losetup -a; ls "$FOLDER/data"`,
      { FOLDER: lab.folder },
    );
    assert.match(stdout, /^inner-ok\ndocker-lab-\w+\ndockerd\.log\nbuildkit\n/);
    assert.match(stdout, /^overlay2$/m);
  });

  it("B-92 is a no-op the second time", async () => {
    await ok(setup);
    const { stdout: first } = await ok("cat /run/docker.pid; findmnt -n /var/lib/docker");
    const { stderr } = await ok(setup);
    assert.equal(stderr, "setup-job-docker: Docker is ready already, nothing to do\n");
    assert.deepEqual((await ok("cat /run/docker.pid; findmnt -n /var/lib/docker")).stdout, first);
  });

  it("B-92 makes the loop devices that a container lacks", async () => {
    await ok(
      "mkdir /mnt/nodes; cp -a /dev/null /dev/zero /dev/urandom /dev/random /dev/tty /dev/full /mnt/nodes/; mount --bind /mnt/nodes /dev; ls /dev",
    );
    await ok(setup);
    const { stdout } = await ok("stat -c '%n %F %t:%T %a' /dev/loop-control /dev/loop7");
    assert.equal(
      stdout,
      "/dev/loop-control character special file a:ed 660\n/dev/loop7 block special file 7:7 660\n",
    );
  });

  it("B-92 fails with another storage driver than dockerd can use", async () => {
    const stderr = await fails(setup, /\nsetup-job-docker: dockerd has ended: .*driver.*\n$/, {
      environment: { DOCKER_STORAGE_DRIVER: "aufs" },
    });
    assert.match(stderr, /dockerd's log, \/tmp\/dockerd\.log:\n[^]*Starting up/);
  });

  it("B-92 fails without loop devices where none can be made", async () => {
    const prepare =
      "mkdir /mnt/nodes; cp -a /dev/null /dev/urandom /mnt/nodes/; mount --bind /mnt/nodes /dev";
    await fails(`setpriv --bounding-set -mknod ${setup}`, /cannot make the device \/dev\/loop-control\n$/, {
      prepare,
    });
  });

  it("B-92 fails on a full disk", async () => {
    await fails(setup, /cannot make an ext4 of 20G in \/tmp\/docker-data\.img\n$/, {
      prepare: "mount -t tmpfs -o size=512k tmpfs /tmp",
    });
  });

  it("B-92 fails where the mounted directory is full, and leaves that mounted", async () => {
    const stderr = await fails(
      setup,
      /dockerd's log, [^]*no space left on device[^]*\nsetup-job-docker: dockerd has ended: .*\n$/,
      {
        prepare:
          "mkdir /var/lib/docker; mount -t tmpfs -o size=64k tmpfs /var/lib/docker; cat /dev/zero 2>/dev/null > /var/lib/docker/full || true",
      },
    );
    assert.match(stderr, /dockerd's log, [^]*Starting up/);
  });

  it("B-92 fails when dockerd dies, with nothing left mounted", async () => {
    const real = docker.folders.map((folder) => `${folder}/dockerd`).join(" ");
    await fails(setup, /dockerd's log, [^]*Starting up[^]*\nsetup-job-docker: dockerd has ended: .*\n$/, {
      prepare: `
        real=$(ls ${real} 2>/dev/null)
        printf '#!/bin/bash\\n%s "$@" & until [ -e /run/docker/containerd ]; do sleep 0.02; done; kill -KILL $!\\n' "$real" > /mnt/bin/dockerd
        chmod +x /mnt/bin/dockerd`,
    });
  });

  it("B-92 fails with read-only cgroups", async () => {
    await fails(
      setup,
      /cannot create directory .*Read-only file system\nsetup-job-docker: cannot make \/sys\/fs\/cgroup\/init\n$/,
      {
        prepare: "mount -o remount,ro,bind /sys/fs/cgroup",
      },
    );
  });

  it("B-92 obeys SIGTERM while it waits for dockerd, and leaves nothing", async () => {
    const clean = await state();
    // A dockerd that runs, but is not answered: docker asks for another one.
    const { exitCode, stdout, stderr } = await lab.run(`
      printf '#!/bin/sh\\nexit 1\\n' > /mnt/bin/docker; chmod +x /mnt/bin/docker
      ${setup} & pid=$!
      until grep -q 'API listen' /tmp/dockerd.log 2>/dev/null; do sleep 0.05; done
      begun=\${EPOCHREALTIME/./}; kill -TERM "$pid"; wait "$pid"; status=$?
      echo "$(( (\${EPOCHREALTIME/./} - begun) / 1000 ))"; exit "$status"`);
    assert.equal(exitCode, 143, stderr);
    assert.match(stderr, /dockerd's log, [^]*\nsetup-job-docker: ended by SIGTERM\n$/);
    assert.ok(Number(stdout) < 2_000, `it took ${stdout} ms`);
    assert.equal(await state(), clean);
  });
});
