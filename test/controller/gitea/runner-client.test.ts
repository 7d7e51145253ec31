import assert from "node:assert/strict";
import { once } from "node:events";
import { afterEach, beforeEach, describe, it } from "mocha";
import { createRunnerClient, type RunnerClientOptions } from "../../../controller/gitea/runner-client.ts";
import { describeError } from "../../../controller/platform/errors.ts";
import { GiteaError } from "../../../controller/protocol/errors.ts";
import { version } from "../../../controller/version.ts";
import { startFakeGitea, type FakeGitea } from "../../fakes/fake-gitea.ts";

const { signal } = new AbortController();

describe("our client of Gitea", () => {
  let gitea: FakeGitea;
  beforeEach(async () => {
    gitea = await startFakeGitea();
  });
  afterEach(() => gitea[Symbol.asyncDispose]());

  const aClient = (overrides: Partial<RunnerClientOptions> = {}) => {
    const runner = gitea.addRunner(["self-hosted", "pod"]);
    const { uuid, token } = runner;
    const client = createRunnerClient({ url: gitea.url, uuid, token, version, ...overrides });
    return { runner, client };
  };
  const failure = async (call: Promise<unknown>): Promise<GiteaError> => {
    try {
      await call;
    } catch (error) {
      assert.ok(error instanceof GiteaError, String(error));
      return error;
    }
    return assert.fail("the call went well");
  };

  it("B-25 declares labels, its version and that it understands a cancel", async () => {
    const { runner, client } = aClient();
    await client.declare(["self-hosted", "vm-dev"], signal);
    assert.deepEqual(runner.labels, ["self-hosted", "vm-dev"]);
    assert.match(runner.version, /^gitea-dynamic-runner\/\d+\.\d+\.\d+$/);
    assert.ok(runner.cancelling);
  });

  it("takes an address with a slash at its end", async () => {
    const { client } = aClient({ url: `${gitea.url}//` });
    assert.ok((await client.fetchTask(0n)).tasksVersion >= 1n);
  });

  it("waits for the answer to FetchTask for as long as Gitea holds it", async () => {
    const { client } = aClient({ callTimeoutMs: 1 });
    const answer = Promise.withResolvers<void>();
    gitea.next("FetchTask", { kind: "held", until: answer.promise });
    const job = gitea.addJob({ runsOn: ["pod"] });
    const fetched = client.fetchTask(0n);
    await gitea.called("FetchTask");
    answer.resolve();
    assert.equal((await fetched).task?.id, job.task?.id);
    assert.ok(job.task !== undefined);
  });

  it("takes a task with 20 MB of event", async () => {
    const { client } = aClient();
    const message = "x".repeat(20 * 1024 * 1024);
    gitea.addJob({ runsOn: ["pod"], context: { event: { message } } });
    assert.deepEqual((await client.fetchTask(0n)).task?.context?.["event"], { message });
  });

  it("gives up a FetchTask after its own deadline, which Gitea hears of, so that the job is not lost", async () => {
    // Long enough for a busy machine to send it.
    const { client, runner } = aClient({ fetchTimeoutMs: 4_000 });
    const answer = Promise.withResolvers<void>();
    gitea.next("FetchTask", { kind: "held", until: answer.promise });
    const job = gitea.addJob({ runsOn: ["pod"] });
    const failed = failure(client.fetchTask(0n));
    const { signal: gone } = await gitea.called("FetchTask");
    if (!gone.aborted) await once(gone, "abort");
    assert.equal((await failed).fault, "transient");
    answer.resolve();
    const patient = createRunnerClient({ ...runner, url: gitea.url, version });
    assert.equal((await patient.fetchTask(0n)).task?.id, job.task?.id);
  });

  it("gives up any other call after its deadline", async () => {
    const { client } = aClient({ callTimeoutMs: 50 });
    for (const [method, call] of [
      ["Declare", () => client.declare([], signal)],
      ["UpdateTask", () => client.updateTask({ state: { id: 1n } }, signal)],
      ["UpdateLog", () => client.updateLog({ taskId: 1n }, signal)],
    ] as const) {
      const answer = Promise.withResolvers<void>();
      gitea.next(method, { kind: "held", until: answer.promise });
      assert.equal((await failure(call())).fault, "transient");
      answer.resolve();
    }
  });

  it("ends a call, FetchTask aside, when it is asked to", async () => {
    const { client } = aClient();
    const stop = new AbortController();
    const answer = Promise.withResolvers<void>();
    gitea.next("UpdateTask", { kind: "held", until: answer.promise });
    const call = client.updateTask({ state: { id: 1n } }, stop.signal);
    const { signal: gone } = await gitea.called("UpdateTask");
    stop.abort(new Error("stop"));
    assert.equal((await failure(call)).fault, "transient");
    if (!gone.aborted) await once(gone, "abort");
    answer.resolve();
  });

  for (const kind of ["lost", "unreached"] as const)
    it(`calls an answer that is ${kind} transient, and goes on with the next call`, async () => {
      const { client } = aClient();
      for (const method of ["FetchTask", "UpdateTask", "UpdateLog"] as const) gitea.next(method, { kind });
      assert.equal((await failure(client.fetchTask(0n))).fault, "transient");
      assert.equal((await failure(client.updateTask({ state: { id: 1n } }, signal))).fault, "transient");
      assert.equal((await failure(client.updateLog({ taskId: 1n }, signal))).fault, "transient");
      assert.ok((await client.fetchTask(0n)).tasksVersion >= 1n);
    });

  it("calls it transient when nobody listens", async () => {
    const away = await startFakeGitea();
    await away[Symbol.asyncDispose]();
    const { client } = aClient({ url: away.url });
    assert.equal((await failure(client.fetchTask(0n))).fault, "transient");
  });

  it("tells of each answer what Gitea said no with, and of nothing that is no answer of Gitea's", async () => {
    const heard: (string | undefined)[] = [];
    const { runner, client } = aClient({ onAnswer: (fault) => void heard.push(fault) });
    await client.fetchTask(0n);
    gitea.next("FetchTask", { kind: "error", text: "rpc error: code = Internal desc = locked" });
    await failure(client.fetchTask(0n));
    gitea.next("FetchTask", { kind: "unreached" });
    await failure(client.fetchTask(0n));
    gitea.removeRunner(runner);
    await failure(client.fetchTask(0n));
    assert.deepEqual(heard, [undefined, "transient", "unregistered"]);
  });

  it("puts neither token nor task into an error", async () => {
    const { runner, client } = aClient();
    gitea.removeRunner(runner);
    for (const call of [
      client.fetchTask(0n),
      client.updateTask({ state: { id: 1n }, outputs: { key: "zq7Pw3" } }, signal),
      client.updateLog({ taskId: 1n, rows: [{ content: "zq7Pw3" }] }, signal),
    ]) {
      const error = await failure(call);
      assert.equal(error.fault, "unregistered");
      const text = `${describeError(error)} ${JSON.stringify(error.cause)}`;
      assert.doesNotMatch(text, /zq7Pw3|runner-token/);
      assert.match(text, /unregistered runner/);
    }
  });
});
