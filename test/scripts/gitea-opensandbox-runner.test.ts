import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, it } from "mocha";
import { eventually } from "../support/eventually.ts";
import { skipFor } from "../support/needs-tools.ts";

const script = path.join(import.meta.dirname, "../../scripts/gitea-opensandbox-runner");
const token = "ci.8f14e45f.gitea-task-42-1-00000000.0123456789abcdef0123456789abcdef";
const bundle = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const ownUid = process.getuid?.() ?? 0;

/** With stand-ins for the programs that it starts; with the real spire-agent in test/e2e/spire-server.test.ts. */
describe("gitea-opensandbox-runner", () => {
  let folder: string;
  let children: ChildProcess[];
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "opensandbox-runner-"));
    await chmod(folder, 0o755);
    children = [];
    // Without a change of user what it was to run.
    await program(
      "setpriv",
      `while [ "$1" != -- ]; do echo "$1" >> ${folder}/setpriv.args; shift; done`,
      `shift; exec "$@"`,
    );
    await program(
      "gitea-dynamic-runner",
      `env > ${folder}/bootstrap.env`,
      `ls ${folder}/run > ${folder}/private`,
    );
    await agent();
  });
  afterEach(async () => {
    for (const child of children) child.kill("SIGKILL");
    const left = (await readFile(at("agent.pid"), "utf8").catch(() => "")).trim();
    assert.ok(left === "" || !isAlive(Number(left)), "the agent is left behind");
    await rm(folder, { recursive: true });
  });

  const at = (name: string) => path.join(folder, name);
  const read = (name: string) => readFile(at(name), "utf8");
  const program = async (name: string, ...lines: readonly string[]) => {
    await writeFile(at(name), `#!/bin/sh\n${lines.join("\n")}\n`);
    await chmod(at(name), 0o755);
  };
  /** An agent that notes how it was started, joins, and then has a socket; `before` runs in its place of that. */
  const agent = async (before = "") => {
    const lines = [
      `#!${process.execPath}`,
      `const { readFileSync, writeFileSync, statSync } = require("node:fs");`,
      `const note = (name, text) => writeFileSync(${JSON.stringify(folder)} + "/" + name, text);`,
      `const config = JSON.parse(readFileSync(process.argv[4], "utf8"));`,
      `const { agent } = config;`,
      `const mode = (file) => (statSync(file).mode & 0o777).toString(8);`,
      `note("agent.pid", String(process.pid));`,
      `note("agent.json", JSON.stringify(config));`,
      `note("agent.args", process.argv.slice(2).join(" "));`,
      `note("agent.env", JSON.stringify(process.env));`,
      `const token = readFileSync(agent.join_token_file, "utf8");`,
      `note("agent.files", JSON.stringify({ token, bundle: readFileSync(agent.trust_bundle_path, "utf8"),`,
      `  modes: [process.argv[4], agent.join_token_file, agent.trust_bundle_path].map(mode) }));`,
      before,
      `console.log("joined as spiffe://example.org/spire/agent/join_token/" + token);`,
      `const server = require("node:net").createServer();`,
      `server.listen(agent.socket_path);`,
    ];
    await writeFile(at("spire-agent"), `${lines.join("\n")}\n`);
    await chmod(at("spire-agent"), 0o755);
  };
  const environment = (more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
    PATH: `${folder}:/usr/bin:/bin`,
    LANG: "C.UTF-8",
    CI_RUN_FOLDER: at("run"),
    CI_EXECUTOR_UID: String(ownUid === 0 ? 2000 : ownUid),
    SPIFFE_ENDPOINT_SOCKET: `unix://${at("sockets/agent.sock")}`,
    CI_ASSIGNMENT_ID: "gitea-task-42",
    CI_BACKEND: "vm",
    CI_RUNNER_CAPABILITY: "the-capability",
    CI_SPIFFE_ID: "spiffe://example.org/ci/acme/widgets/build",
    RUNNER_FACADE_URL: "https://facade.example.org:8443",
    RUNNER_FACADE_SPIFFE_ID: "spiffe://example.org/controller",
    ...more,
  });
  const guest = {
    CI_SPIRE_JOIN_TOKEN: token,
    CI_SPIRE_SERVER: "spire-server.example:8081",
    CI_SPIRE_TRUST_DOMAIN: "example.org",
    CI_SPIRE_BUNDLE: bundle,
  };

  type End = { readonly code: number; readonly stdout: string; readonly stderr: string };
  async function run(more: NodeJS.ProcessEnv = {}, args: readonly string[] = []): Promise<End> {
    try {
      return { code: 0, ...(await promisify(execFile)(script, [...args], { env: environment(more) })) };
    } catch (error) {
      return error as End;
    }
  }

  /** One that runs until the test ends it. */
  function start(more: NodeJS.ProcessEnv = {}) {
    const child = spawn(script, [], { env: environment(more), stdio: ["ignore", "ignore", "pipe"] });
    children.push(child);
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => void (said += text));
    const end = new Promise<number | null>((resolve) => child.once("exit", resolve));
    return { child, end, said: () => said };
  }

  /** As a template's agent would have it. */
  async function listen(): Promise<Disposable & { readonly socket: string }> {
    const server = net.createServer();
    await new Promise<void>((resolve) => server.listen(at("agent.sock"), resolve));
    return { socket: `unix://${at("agent.sock")}`, [Symbol.dispose]: () => server.close() };
  }

  const isAlive = (pid: number) => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };

  it("B-93 brings up an agent with the token, and then the bootstrap", async () => {
    const { code, stderr } = await run(guest);
    assert.equal(code, 0, stderr);
    assert.equal(await read("agent.args"), `run -config ${at("run/agent.json")}`);
    assert.deepEqual(JSON.parse(await read("agent.json")), {
      agent: {
        trust_domain: "example.org",
        server_address: "spire-server.example",
        server_port: 8081,
        trust_bundle_path: at("run/bundle.pem"),
        join_token_file: at("run/token"),
        data_dir: at("run/agent"),
        socket_path: at("sockets/agent.sock"),
        log_level: "INFO",
      },
      plugins: {
        NodeAttestor: [{ join_token: { plugin_data: {} } }],
        KeyManager: [{ memory: { plugin_data: {} } }],
        WorkloadAttestor: [{ unix: { plugin_data: {} } }],
      },
    });
    const files = JSON.parse(await read("agent.files")) as Record<string, unknown>;
    assert.deepEqual(files, { token, bundle: `${bundle}\n`, modes: ["600", "600", "600"] });
    assert.equal((await stat(at("run"))).mode & 0o777, 0o700);
    assert.match(stderr, /waiting for the agent's socket .*agent\.sock, at most 120 s/);
  });

  it("B-93 shows the token to nobody but the agent, and keeps it no longer than that needs it", async () => {
    const { stdout, stderr } = await run(guest);
    assert.match(
      stderr,
      /spire-agent: joined as spiffe:\/\/example\.org\/spire\/agent\/join_token\/\[token\]/,
    );
    for (const text of [
      stdout,
      stderr,
      await read("agent.args"),
      await read("agent.env"),
      await read("bootstrap.env"),
    ])
      assert.ok(!text.includes(token), text);
    assert.ok(!(await read("private")).split("\n").includes("token"), "it is gone before the job begins");
    assert.ok(!(await readdir(at("run"))).includes("token"));
  });

  it("B-93 hands on what the bootstrap is to know, and nothing else", async () => {
    await run({
      ...guest,
      GITEA_RUNNER_CONFIG_FILE: "/etc/x.yaml",
      OPENSANDBOX_ID: "x",
      LD_PRELOAD: "",
      MORE: "x",
    });
    const lines = (await read("bootstrap.env")).split("\n").filter((line) => line !== "");
    const told = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
    );
    // A shell adds these by itself; whose home it is, and whether that user has a name, is the machine's matter.
    const {
      HOME: home,
      USER: _user,
      LOGNAME: _login,
      PWD: _pwd,
      OLDPWD: _old,
      SHLVL: _level,
      _: _last,
      ...rest
    } = told;
    assert.match(home ?? "", /^\//);
    const given = environment({ GITEA_RUNNER_CONFIG_FILE: "/etc/x.yaml" });
    const { CI_RUN_FOLDER: _folder, CI_EXECUTOR_UID: _uid, ...expected } = given;
    assert.deepEqual(rest, expected);
    assert.deepEqual(
      Object.keys(JSON.parse(await read("agent.env")) as object).filter(
        (name) => !["PWD", "OLDPWD", "SHLVL", "_"].includes(name),
      ),
      ["PATH"],
    );
  });

  it("B-93 becomes the job's user, as root", async function () {
    if (ownUid !== 0) skipFor(this, "becoming another user needs root");
    await run({ ...guest, CI_EXECUTOR_UID: "61234" });
    assert.equal(await read("setpriv.args"), "--reuid=61234\n--regid=61234\n--clear-groups\n");
    // The real one, which is not where the stand-ins are.
    await rm(at("setpriv"));
    await chmod(folder, 0o777);
    await program(
      "gitea-dynamic-runner",
      `id -u > ${at("user")}; id -G >> ${at("user")}; echo "$HOME" >> ${at("user")}`,
    );
    assert.equal((await run({ ...guest, CI_EXECUTOR_UID: "61234", CI_RUN_FOLDER: at("again") })).code, 0);
    assert.equal(await read("user"), "61234\n61234\n/tmp\n");
  });

  it("B-93 ends as the bootstrap does, and its agent with it", async () => {
    await program("gitea-dynamic-runner", "exit 7");
    assert.equal((await run(guest)).code, 7);
    assert.ok(!isAlive(Number(await read("agent.pid"))));
  });

  it("B-93 waits for the agent of the template where it is given no token", async () => {
    const socket = `unix://${at("agent.sock")}`;
    const early = start({ SPIFFE_ENDPOINT_SOCKET: socket });
    await eventually("it waits", () => early.said().includes("waiting for the agent's socket"), 50_000, 20);
    using template = await listen();
    assert.equal(template.socket, socket);
    assert.equal(await early.end, 0);
    assert.ok((await read("bootstrap.env")).includes("CI_ASSIGNMENT_ID=gitea-task-42"));
    await assert.rejects(read("agent.pid"), /ENOENT/);
  });

  it("B-93 gives up at its deadline and says what it waited for", async () => {
    const { code, stderr } = await run({ CI_AGENT_TIMEOUT_SECONDS: "1" });
    assert.equal(code, 1);
    assert.match(stderr, /the agent's socket .*agent\.sock was not there within 1 s\n$/);
    await assert.rejects(read("bootstrap.env"), /ENOENT/);
  });

  it("B-93 gives up at once when its agent does, and shows why", async () => {
    await agent(`console.log("token " + token + " does not exist"); process.exit(1);`);
    const { code, stderr } = await run(guest);
    assert.equal(code, 1);
    assert.match(stderr, /spire-agent: token \[token\] does not exist/);
    assert.match(stderr, /the agent ended before its socket .* was there/);
    assert.ok(!(await readdir(at("run"))).includes("token"));
  });

  it("B-93 starts the job once, however often it is run and also after the job has ended", async () => {
    using template = await listen();
    const settings = { SPIFFE_ENDPOINT_SOCKET: template.socket };
    await program("gitea-dynamic-runner", `echo started >> ${at("starts")}`, "sleep 0.5");
    const both = await Promise.all([run(settings), run(settings)]);
    const third = await run(settings);
    for (const { code } of [...both, third]) assert.equal(code, 0);
    assert.equal(await read("starts"), "started\n");
    const line = "gitea-opensandbox-runner: the job of this VM was started already, nothing to do\n";
    assert.equal(both.filter(({ stderr }) => stderr === line).length, 1);
    assert.equal(third.stderr, line);
  });

  for (const name of [
    "OPENSANDBOX_API_KEY",
    "OPEN_SANDBOX_API_KEY",
    "OPENSANDBOX_API_KEY_FILE",
    "GITEA_TOKEN",
    "GITEA_RUNNER_TOKEN",
    "GITEA_RUNNER_TOKEN_FILE",
    "GITEA_RUNNER_REGISTRATION_TOKEN",
    "NATS_PASSWORD_FILE",
    "CAPABILITY_KEY_FILE",
  ])
    it(`B-93 refuses to start with ${name}, and does not say what it holds`, async () => {
      const { code, stdout, stderr } = await run({ ...guest, [name]: "zq7Pw3xK9" });
      assert.equal(code, 2);
      assert.equal(
        stderr,
        `gitea-opensandbox-runner: refused: ${name} is in the environment, and does not belong into a VM\n`,
      );
      assert.ok(!(stdout + stderr).includes("zq7Pw3xK9"));
      await assert.rejects(stat(at("run")), /ENOENT/);
    });

  it("obeys SIGTERM while it waits, and ends its agent", async () => {
    await agent("setInterval(() => {}, 1000); return;");
    const { child, end } = start(guest);
    await eventually(
      "its agent runs",
      async () => (await readdir(folder)).includes("agent.files"),
      50_000,
      20,
    );
    child.kill("SIGTERM");
    // Long before it would give up by itself.
    assert.equal(await end, 143);
    assert.ok(!isAlive(Number(await read("agent.pid"))));
  });

  it("ends an agent that does not obey", async () => {
    await agent(`process.on("SIGTERM", () => {});`);
    assert.equal((await run(guest)).code, 0);
    assert.ok(!isAlive(Number(await read("agent.pid"))));
  });

  it("passes SIGTERM on to the bootstrap, and waits for its end", async () => {
    await program(
      "gitea-dynamic-runner",
      `trap 'echo told >> ${at("told")}; sleep 0.5; kill $!; exit 5' TERM`,
      `sleep 60 &`,
      `echo up > ${at("up")}`,
      "wait",
    );
    const { child, end } = start(guest);
    await eventually("the bootstrap runs", async () => (await readdir(folder)).includes("up"), 50_000, 20);
    child.kill("SIGTERM");
    assert.equal(await end, 5);
    assert.equal(await read("told"), "told\n");
    assert.ok(!isAlive(Number(await read("agent.pid"))));
  });

  const wrong: readonly (readonly [string, NodeJS.ProcessEnv, RegExp])[] = [
    ["no socket", { SPIFFE_ENDPOINT_SOCKET: "" }, /SPIFFE_ENDPOINT_SOCKET is not unix:\/\/\/absolute/],
    ["a socket over TCP", { SPIFFE_ENDPOINT_SOCKET: "tcp://127.0.0.1:1" }, /is not unix:\/\/\/absolute/],
    ["a socket's name that is no plain path", { SPIFFE_ENDPOINT_SOCKET: 'unix:///a",' }, /is not unix:/],
    ["root as the job's user", { CI_EXECUTOR_UID: "0" }, /CI_EXECUTOR_UID is no user's number: '0'/],
    ["a name of a user", { CI_EXECUTOR_UID: "runner" }, /is no user's number/],
    ["no number of seconds", { CI_AGENT_TIMEOUT_SECONDS: "soon" }, /no number of seconds: 'soon'/],
    ["a folder elsewhere", { CI_RUN_FOLDER: "run" }, /CI_RUN_FOLDER is not an absolute path: 'run'/],
    ["no bootstrap", { PATH: "/usr/bin:/bin" }, /gitea-dynamic-runner is not on PATH/],
    ["no server", { ...guest, CI_SPIRE_SERVER: "" }, /CI_SPIRE_SERVER is not host:port/],
    ["a server without a port", { ...guest, CI_SPIRE_SERVER: "spire" }, /is not host:port: 'spire'/],
    ["no trust domain", { ...guest, CI_SPIRE_TRUST_DOMAIN: 'x"' }, /is no trust domain/],
    ["no CA", { ...guest, CI_SPIRE_BUNDLE: "none" }, /CI_SPIRE_BUNDLE holds no certificate/],
    ["what is no token", { ...guest, CI_SPIRE_JOIN_TOKEN: "a b" }, /CI_SPIRE_JOIN_TOKEN is no token\n$/],
  ];
  for (const [what, more, message] of wrong)
    it(`says at once what is wrong with ${what}`, async () => {
      const { code, stderr } = await run(more);
      assert.equal(code, 2);
      assert.match(stderr, message);
      await assert.rejects(stat(at("run")), /ENOENT/);
    });

  it("explains itself, and takes no arguments", async () => {
    const { code, stdout } = await run({}, ["--help"]);
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: gitea-opensandbox-runner\n/);
    assert.match((await run({}, ["--now"])).stderr, /unknown argument --now/);
  });
});
