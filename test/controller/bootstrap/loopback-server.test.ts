import assert from "node:assert/strict";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { describe, it } from "mocha";
import { startLoopbackServer } from "../../../controller/bootstrap/loopback-server.ts";
import { createRunnerService } from "../../../controller/bootstrap/runner-service.ts";
import { Result, RunnerService } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { aTask } from "../../support/a-task.ts";
import { type FacadeInMemory, facadeInMemory } from "../../support/facade-in-memory.ts";
import { aReport, someRows } from "../../support/runner-reports.ts";
import { settles } from "../../support/settles.ts";

const failsWith = (code: Code) => (error: unknown) => error instanceof ConnectError && error.code === code;

describe("the loopback address", () => {
  const start = async (parts: FacadeInMemory = facadeInMemory(), useBinaryFormat = true) => {
    const task = aTask();
    const service = createRunnerService({
      task,
      relay: parts.newRelay(),
      name: "gitea-task-42",
      capabilities: "job-summary",
    });
    const server = await startLoopbackServer({ service, proxy: (_, response) => response.end("proxied") });
    const transport = createConnectTransport({
      baseUrl: `${server.origin}/api/actions`,
      httpVersion: "1.1",
      useBinaryFormat,
    });
    const client = createClient(RunnerService, transport);
    return { ...parts, task, server, client };
  };

  it("B-73 is a free port of 127.0.0.1, without a path", async () => {
    const { server: one } = await start();
    const { server: two } = await start();
    await using both = new AsyncDisposableStack();
    both.use(one);
    both.use(two);
    assert.match(one.origin, /^http:\/\/127\.0\.0\.1:[0-9]+$/);
    assert.notEqual(one.origin, two.origin);
  });

  for (const binary of [true, false])
    it(`answers Declare itself, in ${binary ? "binary" : "JSON"}`, async () => {
      const { server, client, facade } = await start(facadeInMemory(), binary);
      await using _ = server;
      let capabilities: string | null = null;
      const answer = await client.declare(
        { version: "v1.0.8", labels: ["self-hosted", "pod"], capabilities: ["cancelling"] },
        { onHeader: (headers) => (capabilities = headers.get("x-gitea-actions-capabilities")) },
      );
      const { runner } = answer;
      assert.deepEqual(
        [runner?.name, runner?.version, runner?.labels, runner?.token],
        ["gitea-task-42", "v1.0.8", ["self-hosted", "pod"], ""],
      );
      assert.equal(capabilities, "job-summary");
      assert.deepEqual(facade.calls, []);
    });

  for (const binary of [true, false])
    it(`gives the task again until a report shows that it has arrived, in ${binary ? "binary" : "JSON"}`, async () => {
      const { server, client, task } = await start(facadeInMemory(), binary);
      await using _ = server;
      for (let i = 0; i < 2; i++) {
        const answer = await client.fetchTask({});
        assert.equal(answer.task?.id, 42n);
        assert.deepEqual(answer.task.context, task.context);
      }
      await client.updateTask(aReport());
      const later = await client.fetchTask({});
      assert.equal(later.task, undefined);
      assert.ok(later.tasksVersion >= 1n);
    });

  it("takes a log row as a sign that the task has arrived, too", async () => {
    const { server, client } = await start();
    await using _ = server;
    await client.updateLog(someRows(0, ["a"]));
    assert.equal((await client.fetchTask({ tasksVersion: 5n })).task, undefined);
    assert.equal((await client.fetchTask({ tasksVersion: 5n })).tasksVersion, 5n);
  });

  it("relays reports, counted as Gitea counts", async () => {
    const { server, client, facade } = await start(facadeInMemory({ logRows: 3 }));
    await using _ = server;
    assert.equal((await client.updateLog(someRows(0, ["a", "b"]))).ackIndex, 2n);
    await client.updateTask(
      aReport({ result: Result.SUCCESS, steps: [{ id: 0n, logIndex: 1n, logLength: 1n }] }),
    );
    await settles("both have arrived", () => facade.logs.length > 0 && facade.states.length > 0);
    assert.equal(facade.logs[0]?.index, 3n);
    assert.equal(facade.states[0]?.state?.steps[0]?.logIndex, 4n);
  });

  it("takes reports while the facade does not, whatever that says", async () => {
    const { server, client, facade } = await start();
    await using _ = server;
    facade.fail("updateTask", Code.PermissionDenied);
    facade.fail("updateLog", Code.Internal);
    assert.deepEqual((await client.updateTask(aReport({}, { version: "1.2" }))).sentOutputs, ["version"]);
    assert.equal((await client.updateLog(someRows(0, ["a"], true))).ackIndex, 1n);
    assert.equal(
      (await client.updateTask(aReport({ result: Result.SUCCESS }))).state?.result,
      Result.SUCCESS,
    );
  });

  it("refuses what is not about its task", async () => {
    const { server, client, facade } = await start();
    await using _ = server;
    const other = { ...someRows(0, ["a"]), taskId: 43n };
    await assert.rejects(client.updateTask({}), failsWith(Code.InvalidArgument));
    await assert.rejects(client.updateTask({ state: { id: 43n } }), failsWith(Code.InvalidArgument));
    await assert.rejects(client.updateLog(other), failsWith(Code.InvalidArgument));
    await assert.rejects(client.updateLog(someRows(-1, ["a"])), failsWith(Code.InvalidArgument));
    assert.deepEqual(facade.calls, []);
  });

  it("refuses to register anybody", async () => {
    const { server, client } = await start();
    await using _ = server;
    await assert.rejects(client.register({ name: "x", token: "y" }), failsWith(Code.PermissionDenied));
  });

  it("takes a report of many megabytes", async () => {
    const { server, client, facade } = await start();
    await using _ = server;
    const rows = Array.from({ length: 30 }, () => "x".repeat(1024 * 1024));
    assert.equal((await client.updateLog(someRows(0, rows))).ackIndex, 30n);
    await settles("all rows are stored", () => facade.rows.length === 30);
  });

  it("leaves everything else to the proxy", async () => {
    const { server } = await start();
    await using _ = server;
    for (const path of ["/", "/acme/widgets", "/api/actions/ping.v1.PingService/Ping", "/api/v1/version"])
      assert.equal(await (await fetch(server.origin + path)).text(), "proxied");
  });
});
