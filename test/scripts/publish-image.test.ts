import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, it } from "mocha";
import { eventually } from "../support/eventually.ts";
import { skipFor } from "../support/needs-tools.ts";

const script = path.join(import.meta.dirname, "../../scripts/publish-image");
const token = "eyJhbGciOiJSUzI1NiJ9.c2VjcmV0.dG9rZW4";
const commit = "0123456789abcdef0123456789abcdef01234567";
const digest = `sha256:${"ab".repeat(32)}`;
const repository = "acme/dynamic-runner-controller";
const nobody = 65_534;
/** It waits for nothing: where Docker does not obey it would take ten seconds and more. */
const waitedMs = 8_000;

/** With stand-ins for all that it starts, the script of Docker's start among them. */
describe("publish-image", () => {
  let folder: string;
  let agent: net.Server;
  let children: ChildProcess[];
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "publish-image-"));
    for (const name of ["bin", "scripts", "memory", "source"]) await mkdir(at(name));
    for (const name of [".", "memory", "source"]) await chmod(at(name), 0o777);
    await copyFile(script, at("scripts/publish-image"));
    await writeFile(at("source/Dockerfile"), "FROM scratch\n");
    children = [];
    agent = net.createServer().listen(at("agent.sock"));
    await once(agent, "listening");
    await program(
      "bin/docker",
      `echo "$*" >> ${at("docker.args")}`,
      `case "$1 $2" in`,
      `"buildx create") ${note("create")} ;;`,
      `"buildx build")`,
      `  while [ $# -gt 1 ]; do case $1 in --metadata-file) metadata=$2 ;; --output) output=$2 ;; esac; shift; done`,
      `  case $output in *push=true*) when=push ;; *) when=build ;; esac`,
      `  ls -A "$DOCKER_CONFIG" > ${folder}/$when.config; echo "$SOURCE_DATE_EPOCH" > ${at("epoch")}`,
      `  if [ -e ${folder}/on-$when ]; then . ${folder}/on-$when; fi`,
      `  [ $when = build ] || echo '{"containerimage.digest":"${digest}"}' > "$metadata" ;;`,
      `login*) if [ -e ${at("on-login")} ]; then . ${at("on-login")}; fi`,
      `  cat > ${at("login.stdin")}; echo "{}" > "$DOCKER_CONFIG/config.json"; echo Login Succeeded ;;`,
      `"buildx rm") ls -A "$BUILDX_CONFIG/.." > ${at("at-removal")} ;;`,
      `esac`,
    );
    const tokens = JSON.stringify([{ svids: [{ spiffe_id: "spiffe://x/y", svid: token }] }, { bundles: {} }]);
    await program("bin/spire-agent", `echo "$*" >> ${at("agent.args")}`, `echo '${tokens}'`);
    await program("bin/git", `echo "$*" > ${at("git.args")}`, "echo 1700000000");
    await program(
      "bin/sudo",
      `echo "$*" >> ${at("sudo.args")}`,
      `[ "$1 $2" = "-n --" ] && shift 2 && exec "$@"`,
    );
    await program("scripts/setup-job-docker", `id -u > ${at("setup")}`);
  });
  afterEach(async () => {
    for (const child of children) child.kill("SIGKILL");
    agent.close();
    assert.deepEqual(await readdir(at("memory")), [], "something is left of its private files");
    await rm(folder, { recursive: true });
  });

  const at = (name: string) => path.join(folder, name);
  const read = (name: string) => readFile(at(name), "utf8");
  const lines = async (name: string) => (await read(name)).trimEnd().split("\n");
  const program = async (name: string, ...content: readonly string[]) => {
    await writeFile(at(name), `#!/bin/sh\n${content.join("\n")}\n`);
    await chmod(at(name), 0o755);
  };
  /** Lines of a stand-in that are run where the test has put them. */
  const note = (name: string) => `if [ -e ${at(`on-${name}`)} ]; then . ${at(`on-${name}`)}; fi`;
  const on = (name: string, ...content: readonly string[]) =>
    writeFile(at(`on-${name}`), `${content.join("\n")}\n`);
  const environment = (more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
    PATH: `${at("bin")}:/usr/bin:/bin`,
    HOME: folder,
    TMPDIR: at("memory"),
    GITHUB_SHA: commit,
    IMAGE_NAME: "controller",
    IMAGE_REPOSITORY: repository,
    IMAGE_DOCKERFILE: "Dockerfile",
    PUSH_REGISTRY: "push.example.org:5000",
    PULL_REGISTRY: "pull.example.org",
    SPIRE_AGENT_SOCKET: at("agent.sock"),
    ...more,
  });

  function start(more: NodeJS.ProcessEnv = {}, args: readonly string[] = [], uid?: number) {
    const options = {
      cwd: at("source"),
      env: environment(more),
      ...(uid === undefined ? {} : { uid, gid: uid }),
    };
    const child = spawn(at("scripts/publish-image"), args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    children.push(child);
    const end = Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "exit").then(([code]: unknown[]) => code),
    ]).then(([stdout, stderr, code]) => ({ code, stdout, stderr }));
    return { child, end };
  }
  const run = async (...args: Parameters<typeof start>) => await start(...args).end;
  const reference = `pull.example.org/${repository}@${digest}`;

  it("B-94 tells the digest under the name that others pull, and nothing else on stdout", async () => {
    const { code, stdout, stderr } = await run();
    assert.equal(code, 0, stderr);
    assert.equal(stdout, `controller=${reference}\n`);
    assert.match(await read("source/controller-metadata.json"), /sha256/);
  });

  it("B-94 builds for linux/amd64 with provenance and SBOM, and pushes commit and main to the registry for that", async () => {
    await run({}, ["--", "--build-context", "base=docker-image://x"]);
    const name = `push.example.org:5000/${repository}`;
    const images = `type=image,"name=${name}:sha-${commit},${name}:main"`;
    const same = (push: string, metadata: string) =>
      "buildx build --builder ci-builder --platform linux/amd64 --progress plain --provenance=mode=max --sbom=true " +
      `--output ${images},push=${push},rewrite-timestamp=true,oci-mediatypes=true,compression=zstd ${metadata}` +
      "--file Dockerfile --build-context base=docker-image://x .";
    assert.deepEqual(await lines("docker.args"), [
      "buildx version",
      "login --username zot --password-stdin push.example.org:5000",
      "buildx create --name ci-builder --driver docker-container --bootstrap",
      same("false", ""),
      "login --username zot --password-stdin push.example.org:5000",
      same("true", "--metadata-file controller-metadata.json "),
      "buildx rm --force ci-builder",
    ]);
  });

  it("B-94 logs in with a JWT-SVID for zot, which is on no command line and in no log", async () => {
    const { stdout, stderr } = await run();
    const asked = `api fetch jwt -audience zot -socketPath ${at("agent.sock")} -timeout 30s -output json`;
    assert.deepEqual(await lines("agent.args"), [asked, asked]);
    assert.equal(await read("login.stdin"), token);
    for (const seen of [stdout, stderr, await read("docker.args")]) assert.ok(!seen.includes(token), seen);
  });

  it("B-94 does not show the token to who traces it either", async () => {
    const { code, stdout, stderr } = await run({ SHELLOPTS: "xtrace" });
    assert.equal(code, 0);
    assert.match(stderr, /^\+ /m);
    assert.ok(!(stdout + stderr).includes(token));
  });

  it("B-94 asks for the job's own identity where it is told which one", async () => {
    await run({ CI_SPIFFE_ID: "spiffe://example.org/ci/acme/x/build" });
    assert.match(await read("agent.args"), / -spiffeID spiffe:\/\/example\.org\/ci\/acme\/x\/build /);
  });

  it("B-94 has no credentials while it builds, and none any more when it removes its builder", async () => {
    await run();
    assert.equal(await read("build.config"), "");
    assert.equal(await read("push.config"), "config.json\n");
    assert.equal(await read("at-removal"), "buildx\n");
  });

  it("B-94 makes Docker ready at first, as root", async () => {
    assert.equal((await run()).code, 0);
    assert.equal(await read("setup"), `${process.getuid?.()}\n`);
  });

  it("B-94 makes Docker ready through sudo where it is not root", async function () {
    if (process.getuid?.() !== 0) skipFor(this, "becoming another user needs root");
    await chown(folder, nobody, nobody);
    const { code, stderr } = await run({}, [], nobody);
    assert.equal(code, 0, stderr);
    assert.equal(await read("sudo.args"), `-n -- ${at("scripts/setup-job-docker")}\n`);
  });

  it("builds with a BuildKit that is there already, without Docker", async () => {
    assert.equal((await run({ BUILDKIT_HOST: "unix:///run/buildkitd.sock" })).code, 0);
    const calls = await lines("docker.args");
    assert.equal(calls[2], "buildx create --name ci-builder --driver remote unix:///run/buildkitd.sock");
    assert.ok(!calls.some((call) => call.startsWith("buildx rm")));
    await assert.rejects(read("setup"), /ENOENT/);
  });

  it("takes another generator of SBOMs", async () => {
    await run({ IMAGE_SBOM_GENERATOR: "127.0.0.1:5000/sbom:1" });
    assert.match(await read("docker.args"), / --sbom=generator=127\.0\.0\.1:5000\/sbom:1 /);
  });

  it("gives files the time of the commit, or the one that it is told", async () => {
    await run();
    assert.equal(await read("epoch"), "1700000000\n");
    assert.equal(await read("git.args"), `log -1 --format=%ct ${commit} --\n`);
    await run({ SOURCE_DATE_EPOCH: "12" });
    assert.equal(await read("epoch"), "12\n");
  });

  it("B-94 writes image and source commit into the step's summary, below what is there", async () => {
    await writeFile(at("summary"), "before\n");
    await run({ GITHUB_STEP_SUMMARY: at("summary") });
    const summary = await read("summary");
    assert.match(summary, /^before\n### Published image: controller\n/);
    assert.ok(summary.includes(`| Image | \`${reference}\` |`));
    assert.ok(summary.includes(`| Source commit | \`${commit}\` |`));
  });

  it("finds the plug-ins of the user's own Docker", async () => {
    await mkdir(at(".docker/cli-plugins"), { recursive: true });
    await writeFile(at(".docker/config.json"), "{}");
    await run();
    assert.equal(await read("build.config"), "cli-plugins\n");
  });

  const failures: readonly (readonly [
    what: string,
    make: () => Promise<void>,
    message: RegExp,
    calls: number,
  ])[] = [
    [
      "Docker does not start",
      () => program("scripts/setup-job-docker", "echo no loop device >&2; exit 1"),
      /^no loop device\npublish-image: Docker cannot be made ready\n$/,
      1,
    ],
    [
      "the builder does not start",
      () => on("create", "echo toomanyrequests >&2; exit 1"),
      /toomanyrequests\npublish-image: the builder ci-builder does not start\n$/,
      4,
    ],
    [
      "the build fails",
      () => on("build", "echo 'process \"npm ci\" did not complete' >&2; exit 1"),
      /did not complete\npublish-image: controller cannot be built\n$/,
      5,
    ],
    [
      "the agent gives no token",
      () => program("bin/spire-agent", "echo 'PermissionDenied: no identity issued' >&2; exit 1"),
      /no identity issued\npublish-image: no JWT-SVID for audience zot from .*agent\.sock\n$/,
      1,
    ],
    [
      "what the agent gives holds no token",
      () => program("bin/spire-agent", `echo '[{"svids":[]}]'`),
      /publish-image: cannot log in to push\.example\.org:5000 as zot\n$/,
      2,
    ],
    [
      "the registry refuses the token",
      () => on("login", "cat > /dev/null; echo 'unauthorized: bad token' >&2; exit 1"),
      /unauthorized: bad token\npublish-image: cannot log in to push\.example\.org:5000 as zot\n$/,
      2,
    ],
    [
      "the registry is away at the push",
      () => on("push", "echo 'connection refused' >&2; exit 1"),
      new RegExp(
        `refused\npublish-image: controller cannot be pushed to push\\.example\\.org:5000/${repository}\n$`,
      ),
      7,
    ],
    [
      "buildx tells no digest",
      () => on("push", 'echo "{}" > "$metadata"; exit 0'),
      /publish-image: controller-metadata\.json names no digest\n$/,
      7,
    ],
  ];
  for (const [what, make, message, calls] of failures)
    it(`B-94 fails and leaves nothing when ${what}`, async () => {
      await make();
      await writeFile(at("source/controller-metadata.json"), `{"containerimage.digest":"${digest}"}`);
      const { code, stdout, stderr } = await run({ GITHUB_STEP_SUMMARY: at("summary") });
      assert.equal(code, 1);
      assert.equal(stdout, "");
      assert.match(stderr, message);
      assert.ok(!stderr.includes(token));
      await assert.rejects(read("summary"), /ENOENT/);
      const called = await lines("docker.args");
      assert.equal(called.length, calls);
      // From the moment on that it may be there.
      assert.equal(called.at(-1) === "buildx rm --force ci-builder", calls > 2);
    });

  it("gives up a build that takes longer than it may", async () => {
    await on("build", "sleep 1000 & wait");
    const { code, stderr } = await run({ IMAGE_BUILD_SECONDS: "1" });
    assert.equal(code, 1);
    assert.match(
      stderr,
      /not over within 1 s: docker buildx build .*\npublish-image: controller cannot be built\n$/,
    );
  });

  for (const [signal, code] of [
    ["SIGTERM", 143],
    ["SIGINT", 130],
    ["SIGHUP", 129],
  ] as const)
    it(`B-94 obeys ${signal} at once, also where Docker does not, and leaves nothing`, async () => {
      // Not even what outlives its own parent: each of them holds the pipe.
      await on("push", `trap '' TERM INT HUP; touch ${at("begun")}; sleep 1000 & sleep 1000`);
      const { child, end } = start();
      await eventually("it pushes", async () => (await readdir(folder)).includes("begun"), 50_000, 20);
      const begun = performance.now();
      child.kill(signal);
      const ended = await end;
      const took = performance.now() - begun;
      assert.equal(ended.code, code);
      assert.ok(took < waitedMs, `it took ${took} ms`);
      assert.match(ended.stderr, new RegExp(`publish-image: ended by ${signal}\n$`));
      assert.equal((await lines("docker.args")).at(-1), "buildx rm --force ci-builder");
    });

  const wrong: readonly (readonly [string, NodeJS.ProcessEnv, RegExp])[] = [
    ["no commit", { GITHUB_SHA: "main" }, /GITHUB_SHA is no commit: 'main'\n/],
    ["a name that is a path", { IMAGE_NAME: "../x" }, /IMAGE_NAME is no name of an image: '\.\.\/x'\n/],
    [
      "a repository with a tag",
      { IMAGE_REPOSITORY: "a/b:c" },
      /IMAGE_REPOSITORY is no repository: 'a\/b:c'\n/,
    ],
    ["an upper-case repository", { IMAGE_REPOSITORY: "Acme/x" }, /IMAGE_REPOSITORY is no repository/],
    ["no Dockerfile", { IMAGE_DOCKERFILE: "Other" }, /IMAGE_DOCKERFILE is no file: 'Other'\n/],
    [
      "a registry with a scheme",
      { PUSH_REGISTRY: "https://x" },
      /PUSH_REGISTRY is no registry: 'https:\/\/x'/,
    ],
    ["a registry with options", { PUSH_REGISTRY: "--x" }, /PUSH_REGISTRY is no registry/],
    ["no registry to pull from", { PULL_REGISTRY: "" }, /PULL_REGISTRY is no registry: ''\n/],
    ["no socket", { SPIRE_AGENT_SOCKET: "/nowhere" }, /SPIRE_AGENT_SOCKET is no socket: '\/nowhere'\n/],
    [
      "no number of seconds",
      { IMAGE_BUILD_SECONDS: "1h" },
      /IMAGE_BUILD_SECONDS is no number of seconds: '1h'/,
    ],
    ["no spire-agent", { PATH: "/usr/bin:/bin" }, /spire-agent is not on PATH\n/],
  ];
  for (const [what, more, message] of wrong)
    it(`B-94 says at once what is wrong with ${what}`, async () => {
      const { code, stderr } = await run(more);
      assert.equal(code, 2);
      assert.match(stderr, message);
      await assert.rejects(read("docker.args"), /ENOENT/);
    });

  it("B-94 tells all that is wrong at once", async () => {
    const { stderr } = await run({
      GITHUB_SHA: undefined,
      PUSH_REGISTRY: undefined,
      IMAGE_DOCKERFILE: undefined,
    });
    assert.equal(stderr.trimEnd().split("\n").length, 3);
  });

  it("says so where Docker has no buildx, and where git does not know the commit", async () => {
    await program("bin/git", "echo 'fatal: bad object' >&2; exit 128");
    const unknown = await run();
    assert.equal(unknown.code, 2);
    assert.match(unknown.stderr, /git does not know commit 0123.*; set SOURCE_DATE_EPOCH\n$/);
    await program("bin/docker", "exit 1");
    const without = await run({ SOURCE_DATE_EPOCH: "1" });
    assert.deepEqual([without.code, without.stderr], [2, "publish-image: docker has no buildx\n"]);
  });

  it("explains itself, and takes arguments for buildx only", async () => {
    const { code, stdout } = await run({}, ["--help"]);
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: publish-image \[-- ARGUMENT\.\.\.\]\n/);
    const { code: refused, stderr } = await run({}, ["--push"]);
    assert.deepEqual([refused, stderr], [2, "publish-image: unknown argument --push, see --help\n"]);
  });
});
