import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { chmod, chown, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, it } from "mocha";

const nobody = 65_534;
const script = path.join(import.meta.dirname, "../../scripts/gitea-job-started");

/** With a stand-in for `spire-agent`; with the real one in test/e2e/spire.test.ts. */
describe("gitea-job-started", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "job-started-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  const program = async (name: string, ...lines: readonly string[]) => {
    await writeFile(path.join(folder, name), `#!/bin/sh\n${lines.join("\n")}\n`);
    await chmod(path.join(folder, name), 0o755);
  };
  /** An agent that denies until this many calls were made, then gives a token. */
  const agentAfter = (calls: number) =>
    program(
      "spire-agent",
      `echo "$*" >> ${folder}/calls`,
      `if [ "$(wc -l < ${folder}/calls)" -le ${calls} ]; then`,
      `  echo warming up >&2; echo "rpc error: code = PermissionDenied desc = no identity issued" >&2; exit 1`,
      `fi`,
      `echo 'token(spiffe://example.org/x): secret.token.text'`,
    );
  const calls = async () => (await readFile(path.join(folder, "calls"), "utf8")).trimEnd().split("\n");

  type End = { readonly code: number; readonly stdout: string; readonly stderr: string };
  async function run(
    more: NodeJS.ProcessEnv = {},
    args: readonly string[] = [],
    user: { readonly uid?: number; readonly gid?: number } = {},
  ): Promise<End> {
    const env = {
      PATH: `${folder}:/usr/bin:/bin`,
      SPIFFE_ENDPOINT_SOCKET: "unix:///run/agent.sock",
      ...more,
    };
    try {
      return { code: 0, ...(await promisify(execFile)(script, [...args], { env, ...user })) };
    } catch (error) {
      return error as End;
    }
  }

  it("B-91 asks for a token for ci-job-ready from the agent's socket, and never shows it", async () => {
    await agentAfter(0);
    assert.deepEqual(await run(), { code: 0, stdout: "", stderr: "" });
    assert.deepEqual(await calls(), [
      "api fetch jwt -audience ci-job-ready -socketPath /run/agent.sock -timeout 5s",
    ]);
  });

  it("B-91 insists on the job's own identity where it is known", async () => {
    await agentAfter(0);
    await run({ CI_SPIFFE_ID: "spiffe://example.org/ci/owner/repo/build" });
    assert.match((await calls())[0] ?? "", / -spiffeID spiffe:\/\/example\.org\/ci\/owner\/repo\/build /);
  });

  it("B-91 asks again once a second until the identity is there, without a word", async () => {
    await agentAfter(2);
    const begun = performance.now();
    assert.deepEqual(await run(), { code: 0, stdout: "", stderr: "" });
    assert.ok(performance.now() - begun >= 1_900, "it asked too often");
    assert.equal((await calls()).length, 3);
  });

  it("B-91 gives up at its deadline and says what it was told last", async () => {
    await agentAfter(99);
    const { code, stderr } = await run({ CI_JOB_READY_TIMEOUT_SECONDS: "1" });
    assert.equal(code, 1);
    assert.equal(
      stderr,
      "gitea-job-started: no identity came from /run/agent.sock within 1 s: " +
        "rpc error: code = PermissionDenied desc = no identity issued\n",
    );
    // A timeout of 0 would be none.
    for (const call of await calls()) assert.match(call, / -timeout 1s$/);
  });

  it("B-91 starts Docker afterwards where the image can, as often as it is run", async () => {
    await agentAfter(0);
    const noted = `echo "docker $(wc -l < ${folder}/calls)" >> ${folder}/docker`;
    await program("setup-job-docker", noted);
    await program("sudo", `[ "$1 $2" = "-n --" ] && shift 2 && exec "$@"`);
    assert.equal((await run()).code, 0);
    assert.equal((await run()).code, 0);
    assert.equal(await readFile(path.join(folder, "docker"), "utf8"), "docker 1\ndocker 2\n");
  });

  it("B-91 hands on what is said of Docker, and nothing else, though sudo hands on nothing", async () => {
    // Where we are somebody else than root that is who runs it.
    const user = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {};
    if (user.uid !== undefined) await chown(folder, nobody, nobody);
    await agentAfter(0);
    await program("setup-job-docker", `env > ${folder}/docker`);
    await program("sudo", `shift 2; exec env -i PATH="$PATH" "$@"`);
    const given = { DOCKER_DATA_SIZE: "5G", CI_RUNNER_CAPABILITY: "planted" };
    const { code, stderr } = await run(given, [], user);
    assert.equal(code, 0, stderr);
    const docker = await readFile(path.join(folder, "docker"), "utf8");
    assert.match(docker, /^DOCKER_DATA_SIZE=5G$/m);
    assert.doesNotMatch(docker, /DOCKER_STORAGE_DRIVER|planted/);
  });

  it("B-91 fails when Docker does not start", async () => {
    await agentAfter(0);
    await program("setup-job-docker", "echo no overlay2 >&2; exit 7");
    await program("sudo", `shift 2; exec "$@"`);
    const { code, stderr } = await run();
    assert.deepEqual([code, stderr], [7, "no overlay2\n"]);
  });

  it("can be ended while it waits", async () => {
    await agentAfter(99);
    const env = { PATH: `${folder}:/usr/bin:/bin`, SPIFFE_ENDPOINT_SOCKET: "unix:///run/agent.sock" };
    const child = spawn(script, [], { env, stdio: "ignore" });
    const ended = new Promise((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
    child.kill("SIGTERM");
    assert.equal(await ended, "SIGTERM");
  });

  const wrong: readonly (readonly [string, NodeJS.ProcessEnv, RegExp])[] = [
    ["no socket", { SPIFFE_ENDPOINT_SOCKET: "" }, /SPIFFE_ENDPOINT_SOCKET is not unix:\/\/\/absolute/],
    ["a socket over TCP", { SPIFFE_ENDPOINT_SOCKET: "tcp://127.0.0.1:1" }, /is not unix:\/\/\/absolute/],
    ["no number of seconds", { CI_JOB_READY_TIMEOUT_SECONDS: "soon" }, /no number of seconds: 'soon'/],
    ["no spire-agent", { PATH: "/usr/bin:/bin" }, /spire-agent is not on PATH/],
  ];
  for (const [what, environment, message] of wrong)
    it(`says at once what is wrong with ${what}`, async () => {
      await agentAfter(0);
      const { code, stderr } = await run(environment);
      assert.equal(code, 2);
      assert.match(stderr, message);
    });

  it("explains itself, and takes no arguments", async () => {
    const { code, stdout } = await run({}, ["--help"]);
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: gitea-job-started\n/);
    assert.match((await run({}, ["--now"])).stderr, /unknown argument --now/);
  });
});
