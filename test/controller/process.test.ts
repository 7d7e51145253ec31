import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { afterEach, describe, it } from "mocha";
import { connect } from "nats";
import { socketPath } from "../../controller/backends/local/workload-entry.ts";
import { freePort } from "../../scripts/peers/free-port.ts";
import { startControllerChild, type ControllerChild } from "../support/controller-child.ts";
import { peersTrustDomain, useControllerPeers } from "../support/controller-peers.ts";
import { healthPages } from "../support/health-pages.ts";

/** Every line is JSON with a level, an RFC 3339 time, a message and, where it is ours, a component. */
function assertLog(child: ControllerChild, secrets: readonly string[]): void {
  const { stdout, stderr } = child.output();
  assert.equal(stdout, "");
  for (const line of child.lines()) {
    assert.match(line.level, /^(debug|info|warn|error)$/);
    assert.equal(new Date(line.time).toISOString(), line.time);
    assert.ok(line.msg !== "" && typeof line.component === "string", JSON.stringify(line));
  }
  for (const secret of secrets) assert.ok(!stderr.includes(secret), `${secret} is in the log`);
}

describe("the controller as a process", function () {
  this.timeout(180_000);
  const peers = useControllerPeers();
  const { nats } = peers;

  /** All that it needs, with a stream and a state folder of its own. */
  const environment = async (changes: Readonly<Record<string, string>> = {}) => ({
    ...(await peers.environment()),
    POD_BACKEND: "local",
    LOCAL_FOLDER: await peers.stateFolder(),
    LOCAL_WORKLOAD_API_FOLDER: peers.workloadFolder,
    GITEA_RUNNER_BINARY: "/bin/true",
    ...changes,
  });
  const started: ControllerChild[] = [];
  const start = (...how: Parameters<typeof startControllerChild>) => {
    const child = startControllerChild(...how);
    started.push(child);
    return child;
  };
  // A test that failed half-way has not disposed of its child.
  afterEach(async () => {
    for (const child of started.splice(0)) await child[Symbol.asyncDispose]();
  });
  const secrets = () => peers.secrets();

  describe("B-82 with a bad configuration", () => {
    it("B-80 writes one line `runner stopped` that names every mistake, and exits with 1", async () => {
      await using child = start({ COMPONENTS: "pod-worker", LOG_LEVEL: "loud" });
      assert.equal(await child.exited, 1);
      const [line, ...more] = child.lines();
      assert.ok(line !== undefined);
      assert.deepEqual(more, []);
      assert.deepEqual([line.msg, line.level, line.component], ["runner stopped", "error", "main"]);
      for (const name of [
        "GITEA_URL",
        "NATS_URL",
        "TRUST_DOMAIN",
        "CAPABILITY_KEY_FILE",
        "COMPONENTS",
        "LOG_LEVEL",
      ])
        assert.ok(line.error?.includes(name), line.error);
      assertLog(child, []);
    });

    it("B-80 says so when there is no cluster in which to lead and to make Pods", async () => {
      await using child = start({
        ...(await peers.environment()),
        POD_EXECUTOR_IMAGE: "registry.example/runner:1",
        SPIRE_AGENT_ID: `spiffe://${peersTrustDomain}/agent`,
        CONTROLLER_NAMESPACE: "ci",
        HOSTNAME: "controller-a",
      });
      assert.equal(await child.exited, 1);
      assert.match(
        child.lines().at(-1)?.error ?? "",
        /KUBECONFIG and KUBERNETES_SERVICE_HOST: one is needed/,
      );
      assertLog(child, secrets());
    });

    it("never shows a secret that stands where it does not belong", async () => {
      const planted = "zq7Pw3xK9vB2mJ4tR8hN6dL5";
      const all = await environment();
      const misplaced = Object.fromEntries(Object.keys(all).map((name) => [name, planted]));
      await using child = start(misplaced);
      assert.equal(await child.exited, 1);
      assertLog(child, [planted]);
      assert.equal(child.lines().length, 1);
    });
  });

  describe("without its peers", () => {
    it("waits loudly for NATS, alive all the time, and stops cleanly at SIGTERM meanwhile", async () => {
      const password = "nats-password-zq7Pw3";
      const health = `127.0.0.1:${await freePort()}`;
      await using child = start(
        await environment({
          HEALTH_LISTEN: health,
          NATS_URL: `nats://127.0.0.1:${await freePort()}`,
          NATS_PASSWORD_FILE: await peers.secretFile("wrong", password),
        }),
      );
      assert.equal((await child.line("nats is not reachable, waiting for it")).level, "warn");
      const pages = healthPages({ HEALTH_LISTEN: health });
      assert.deepEqual(await pages.page("livez"), { status: 200, text: "ok\n" });
      assert.deepEqual(await pages.page("readyz"), { status: 503, text: "svid: there was none yet\n" });
      assert.equal(
        (await pages.page("healthz")).text,
        "start: it waits for NATS\nnats: it is not connected\n",
      );
      assert.equal(await pages.metric("runners_leader"), 0);
      child.signal("SIGTERM");
      assert.equal(await child.exited, 0);
      assertLog(child, [...secrets(), password]);
      assert.equal(child.lines().at(-1)?.msg, "runner stopped cleanly");
    });

    it("waits loudly for its identity, and recovers with NATS away in between", async () => {
      const socket = `unix://${socketPath(peers.workloadFolder, "late")}`;
      await using child = start(await environment({ SPIFFE_ENDPOINT_SOCKET: socket }));
      await child.line("no new x509-svid");
      await nats.stop();
      await child.line("nats connection lost, reconnecting");
      await peers.register("late");
      const failed = await child.line("writing the key leader failed, trying again");
      assert.equal(failed.component, "lifecycle");
      await nats.start();
      await child.line("runner started");
      assertLog(child, secrets());
    });

    it("waits for the end of another controller on its folder, and stops cleanly meanwhile", async () => {
      const all = await environment();
      await using first = start(all);
      await first.line("runner started");
      await using second = start({
        ...all,
        RUNNER_FACADE_LISTEN: `127.0.0.1:${await freePort()}`,
      });
      await second.line("another controller leads on this folder, waiting for its end");
      second.signal("SIGINT");
      assert.equal(await second.exited, 0);
    });

    it("B-25 goes on while Gitea answers errors at the start, and then declares what its components offer", async () => {
      const text = "rpc error: code = Internal desc = update runner: locked";
      peers.gitea.next("Declare", { kind: "error", text });
      const changes = { COMPONENTS: "scheduler,vm-worker", VM_BACKEND: "local", VM_RUNNER_LABEL: "vm-dev" };
      const all = await environment(changes);
      await using child = start(all);
      const line = await child.line("scheduler error");
      assert.deepEqual([line.level, line.component], ["error", "scheduler"]);
      await child.line("declared to gitea");
      const runner = peers.gitea.runners.find(({ uuid }) => uuid === all.GITEA_RUNNER_UUID);
      assert.deepEqual(runner?.labels, ["self-hosted", "vm-dev"]);
      child.signal("SIGTERM");
      assert.equal(await child.exited, 0);
    });
  });

  it("B-81 stops cleanly at SIGTERM, after a fetch under way has ended and its task is stored", async () => {
    const answer = Promise.withResolvers<void>();
    const earlier = peers.gitea.calls.length;
    peers.gitea.next("FetchTask", { kind: "slow", until: answer.promise });
    await using child = start(await environment({ POD_CAPACITY: "1" }));
    const job = peers.gitea.addJob({
      runsOn: ["self-hosted", "pod"],
      secrets: { DEPLOY_KEY: "zq7Pw3xK9v" },
    });
    await child.line("declared to gitea");
    while (peers.gitea.calls.slice(earlier).every(({ method }) => method !== "FetchTask"))
      await peers.gitea.called(
        "FetchTask",
        peers.gitea.calls.filter(({ method }) => method === "FetchTask").length + 1,
      );
    child.signal("SIGTERM");
    answer.resolve();
    assert.equal(await child.exited, 0);
    assert.ok(job.task !== undefined);
    assert.equal((await child.line("task stored"))["assignment"], `gitea-task-${job.task.id}`);
    const fetches = peers.gitea.calls.slice(earlier).filter(({ method }) => method === "FetchTask");
    assert.equal(fetches.length, 1);
    assertLog(child, [...secrets(), "zq7Pw3xK9v", "task-token"]);
  });

  it("B-81 stops all of it, and ends with exit code 1 and the part's name, when one part fails", async () => {
    const times = { RUNNER_TIMES: '{"leaseRetryMs": 100}' };
    await using child = start(await environment({ ...times, NATS_STREAM: "ONE_PART_FAILS" }));
    await child.line("declared to gitea");
    const { url, user, password } = nats;
    const connection = await connect({ servers: url, user, pass: password });
    await connection.jetstream().publish("$KV.ONE_PART_FAILS_STATE.leader", "somebody else");
    await connection.close();
    assert.equal(await child.exited, 1);
    const stopped = child.lines().filter(({ msg }) => msg === "runner stopped");
    assert.deepEqual(
      stopped.map(({ component, error }) => [component, error?.split(":")[0]]),
      [["main", "key leader"]],
    );
    assertLog(child, secrets());
  });

  it("is unhealthy once Gitea does not know its registration any more, and goes on, alive and ready", async () => {
    const health = `127.0.0.1:${await freePort()}`;
    const all = await environment({ HEALTH_LISTEN: health });
    await using child = start(all);
    await child.line("declared to gitea");
    const ask = async (page: string) => {
      const answer = await fetch(`http://${health}${page}`);
      return [answer.status, await answer.text()] as const;
    };
    assert.deepEqual(await ask("/healthz"), [200, "ok\n"]);
    const runner = peers.gitea.runners.find(({ uuid }) => uuid === all.GITEA_RUNNER_UUID);
    assert.ok(runner !== undefined);
    peers.gitea.removeRunner(runner);
    await child.line("scheduler error");
    const [status, text] = await ask("/healthz");
    assert.equal(status, 503);
    assert.match(text, /^unregistered: Gitea knows no runner with GITEA_RUNNER_UUID .*, since 2.*Z\n$/);
    assert.match((await ask("/metrics"))[1], /^runners_troubles\{kind="unregistered"\} 1$/m);
    for (const page of ["/livez", "/readyz"]) assert.deepEqual(await ask(page), [200, "ok\n"]);
    child.signal("SIGTERM");
    assert.equal(await child.exited, 0);
  });

  it("B-80 ends with one line `runner stopped` and exit code 1 when a port is in use", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const taken = `127.0.0.1:${port}`;
    const children = [
      start(await environment({ HEALTH_LISTEN: taken })),
      start(await environment({ RUNNER_FACADE_LISTEN: taken })),
    ];
    for (const child of children) {
      assert.equal(await child.exited, 1);
      const stopped = child.lines().filter(({ msg }) => msg === "runner stopped");
      assert.equal(stopped.length, 1);
      assert.match(stopped[0]?.error ?? "", /EADDRINUSE/);
      assertLog(child, secrets());
    }
    server.close();
  });

  it("B-80 puts what nobody caught, and node's own warnings, into lines of the log", async () => {
    const code = [
      `process.emitWarning("a warning");`,
      `process.on("SIGUSR2", () => { throw Object.assign(new Error("nobody caught this"), { token: ["zq7", "Pw3"].join("") }); });`,
    ].join("");
    const inject = `--import=data:text/javascript,${encodeURIComponent(code)}`;
    const url = `nats://127.0.0.1:${await freePort()}`;
    await using child = start(await environment({ NATS_URL: url }), [inject]);
    await child.line("nats is not reachable, waiting for it");
    child.signal("SIGUSR2");
    assert.equal(await child.exited, 1);
    assertLog(child, [...secrets(), "zq7Pw3"]);
    assert.equal(child.lines().filter(({ msg }) => msg === "runner stopped").length, 1);
    assert.match(child.lines().at(-1)?.error ?? "", /nobody caught this/);
  });
});
