import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { beforeEach, describe, it } from "mocha";
import { parse } from "yaml";
import * as z from "zod";
import { runToEnd } from "../../scripts/peers/run-to-end.ts";
import { useFakeTools } from "../support/fake-tools.ts";

const file = path.join(import.meta.dirname, "../../.gitea/workflows/vm-kind-smoke.yml");
const { jobs } = z
  .object({
    jobs: z.object({
      kind: z.object({
        env: z.record(z.string(), z.string()),
        steps: z.array(z.object({ name: z.string(), run: z.string() })),
      }),
    }),
  })
  .parse(parse(readFileSync(file, "utf8")));
const { env, steps } = jobs.kind;
const { signal } = new AbortController();

describe("vm-kind-smoke.yml, with stand-ins for what a VM has", () => {
  const tools = useFakeTools();
  const temporary = () => path.join(tools.bin, "../temporary");
  const kind = () => path.join(temporary(), "kind");
  beforeEach(async () => {
    await rm(path.join(tools.bin, "../calls"), { force: true });
    await rm(temporary(), { recursive: true, force: true });
    await mkdir(temporary());
    const note = `echo "$(basename "$0") $*" >> "$CALLS"`;
    await tools.script("docker", note, `[ "$1" != logs ] || echo "the node's log"`);
    for (const name of ["sudo", "free", "df", "ps"]) await tools.script(name, note);
    await tools.script(
      "kind",
      note,
      `case $1 in`,
      `get) echo smoke-control-plane ;;`,
      `create) cp "$6" "$RUNNER_TEMP/read.yaml"; exit "\${CREATED:-0}" ;;`,
      `delete) exit "\${DELETED:-0}" ;;`,
      `esac`,
    );
  });

  /** As gitea-runner runs a step. */
  const run = async (step: string, more: NodeJS.ProcessEnv = {}) => {
    const script = steps.find(({ name }) => name === step)?.run;
    assert.ok(script !== undefined, step);
    const environment = { ...tools.environment, ...env, RUNNER_TEMP: temporary(), ...more };
    const args = ["--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script];
    return await runToEnd({ program: "/bin/bash", args, environment, deadline: 20_000 }, signal);
  };
  /** What curl would bring. */
  const offer = async (content: string) => {
    await writeFile(path.join(temporary(), "offered"), content);
    await tools.script(
      "curl",
      `echo "curl $*" >> "$CALLS"`,
      `while [ "$1" != --output ]; do shift; done`,
      `cp "$RUNNER_TEMP/offered" "$2"`,
    );
  };
  const withKind = async () =>
    await writeFile(kind(), await readFile(path.join(tools.bin, "kind")), { mode: 0o755 });

  it("B-99 makes the device of the kernel's messages where there is none", async () => {
    assert.deepEqual(
      steps.map(({ name }) => name),
      ["Kernel log", "Control groups", "kind", "Cluster"],
    );
    const { exitCode } = await run("Kernel log");
    const made = (await tools.calls()).filter((call) => call.startsWith("sudo"));
    if (existsSync("/dev/kmsg")) assert.deepEqual([exitCode, made], [0, []]);
    // The stand-in of sudo makes none.
    else assert.deepEqual([exitCode, made], [2, ["sudo mknod /dev/kmsg c 1 11"]]);
  });

  it("B-99 shows the cgroups here, and in containers with a namespace of theirs and with the host's", async () => {
    const { exitCode, stdout } = await run("Control groups");
    assert.equal(exitCode, 0);
    assert.match(stdout, /^type of \/sys\/fs\/cgroup: \w+$/m);
    assert.match(stdout, /^\d+:.*:\/.*$/m);
    for (const what of ["cgroup.controllers: ", "cgroup.subtree_control: "]) assert.ok(stdout.includes(what));
    const calls = (await tools.calls()).filter((call) => call.startsWith("docker run"));
    assert.deepEqual(
      calls.map((call) => call.replace(/ sh -c .*/, "")),
      ["private", "host"].map((namespace) => `docker run --rm --cgroupns ${namespace} alpine:3.22`),
    );
  });

  it("B-99 takes kind v0.33.0 only with the checksum that it knows", async () => {
    const address = "https://github.com/kubernetes-sigs/kind/releases/download/v0.33.0/kind-linux-amd64";
    assert.equal(env["KIND_URL"], address);
    assert.equal(env["KIND_SHA256"], "aee6151561422756b764a4ae28e7f44cda5af5a9eead3cc9985112b1de8d8e0d");
    const content = `#!/bin/sh\necho "it ran $*" >> "$CALLS"\n`;
    await offer(content);
    const other = await run("kind");
    assert.notEqual(other.exitCode, 0);
    assert.match(other.stdout, /kind: FAILED/);
    const [asked, ...more] = await tools.calls();
    assert.ok(asked?.endsWith(` ${address}`), asked);
    assert.deepEqual(more, []);
    const known = createHash("sha256").update(content).digest("hex");
    const { exitCode, stderr } = await run("kind", { KIND_SHA256: known });
    assert.equal(exitCode, 0, stderr);
    assert.equal((await tools.calls()).at(-1), "it ran version");
  });

  it("B-99 makes a cluster, with five minutes for kubeadm's calls, and deletes it", async () => {
    await withKind();
    const { exitCode, stderr } = await run("Cluster");
    assert.equal(exitCode, 0, stderr);
    const calls = await tools.calls();
    assert.equal(
      calls[0],
      `kind create cluster --name smoke --config ${temporary()}/cluster.yaml --wait 300s --retain`,
    );
    assert.match(
      calls[1] ?? "",
      /^docker exec smoke-control-plane kubectl .* get nodes,pods --all-namespaces$/,
    );
    assert.deepEqual(calls.slice(2), ["kind delete cluster --name smoke"]);
    const settings = z
      .object({ kind: z.literal("Cluster"), kubeadmConfigPatches: z.array(z.string()) })
      .parse(parse(await readFile(path.join(temporary(), "read.yaml"), "utf8")));
    assert.deepEqual(
      settings.kubeadmConfigPatches.map((patch) => parse(patch) as unknown),
      [{ kind: "InitConfiguration", timeouts: { kubernetesAPICall: "5m0s" } }],
    );
  });

  it("B-99 tells of node and guest when there is no cluster, deletes what there is, and fails as kind did", async () => {
    await withKind();
    // Nor does it hide why.
    const { exitCode, stdout } = await run("Cluster", { CREATED: "7", DELETED: "9" });
    assert.equal(exitCode, 7);
    assert.match(stdout, /^::group::node smoke-control-plane$[^]*^the node's log$[^]*^::group::guest$/m);
    const calls = await tools.calls();
    for (const wanted of [
      "docker inspect smoke-control-plane",
      "docker logs smoke-control-plane",
      "docker exec smoke-control-plane journalctl --no-pager --lines 300 --unit kubelet --unit containerd",
      "free --mebi",
      "df --human-readable",
      "sudo dmesg",
    ])
      assert.ok(calls.includes(wanted), calls.join("\n"));
    assert.equal(calls.at(-1), "kind delete cluster --name smoke");
  });
});
