import assert from "node:assert/strict";
import http2 from "node:http2";
import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { compressionGzip, createConnectTransport } from "@connectrpc/connect-node";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import type { Assignment } from "../../../controller/assignment/assignment.ts";
import { actionsPath } from "../../../controller/assignment/executor-call.ts";
import { createFacadeHandler } from "../../../controller/facade/handler.ts";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { exactly } from "../../../controller/spiffe/authorize.ts";
import { createTlsDialer } from "../../../controller/spiffe/tls-client.ts";
import { createTlsServer, type TlsServer } from "../../../controller/spiffe/tls-server.ts";
import { Result, RunnerService } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { anAssignment } from "../../support/builders.ts";
import {
  type CallerInit,
  callerHeaders,
  createFacadeUnderTest,
  type FacadeUnderTest,
  withHeaders,
} from "../../support/facade-under-test.ts";
import { createTestCa, issueLeaf, type TestCa } from "../../support/test-pki.ts";
import { asSvid, createSettableSource } from "../spiffe/settable-source.ts";

const facadeId = parseSpiffeId("spiffe://example.org/controller");
const mine = anAssignment();
const other = anAssignment({ taskId: 43n, repository: "acme/gears", jobKey: "deploy" });
/** Another run of the same job: it has the same SPIFFE ID. */
const again = anAssignment({ taskId: 44n });

/** How a call went: "ok", or the name of the code. */
async function outcome(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "ok";
  } catch (error) {
    return Code[ConnectError.from(error).code];
  }
}

describe("the facade over TLS and HTTP/2", () => {
  let ca: TestCa;
  let stranger: TestCa;
  let facade: FacadeUnderTest;
  let tls: TlsServer;
  let port: number;
  let refusedPeers: string[];
  let resources: AsyncDisposableStack;

  before(async () => {
    [ca, stranger] = await Promise.all([createTestCa(), createTestCa()]);
  });
  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    facade = createFacadeUnderTest();
    refusedPeers = [];
    const source = createSettableSource(asSvid(facadeId, await issueLeaf(ca, facadeId), ca));
    tls = createTlsServer({
      source,
      clock: systemClock,
      onRefused: ({ reason }) => refusedPeers.push(reason),
      limits: { closeGraceMs: 200 },
    });
    resources.use(tls);
    tls.server.on(
      "request",
      createFacadeHandler({
        ...facade.options,
        peerOf: (session) => tls.peerOf(session),
        endSoon: (session) => tls.endSoon(session),
      }),
    );
    ({ port } = await tls.listen({ host: "127.0.0.1", port: 0 }));
    for (const assignment of [mine, other, again]) await facade.started(assignment);
  });
  afterEach(() => resources.disposeAsync());

  /** Makes connections with an SVID of this ID. */
  async function dialer(id: string, issuer = ca) {
    const svid = asSvid(parseSpiffeId(id), await issueLeaf(issuer, id), ca);
    return createTlsDialer({
      source: createSettableSource(svid),
      host: "127.0.0.1",
      port,
      authorize: exactly(facadeId),
      clock: systemClock,
    });
  }

  /** A client with an SVID of that ID, which says in its headers what `init` says. */
  async function connect(
    id: string,
    init: CallerInit = {},
    options: { readonly gzip?: boolean; readonly issuer?: TestCa } = {},
  ): Promise<Client<typeof RunnerService>> {
    const dial = await dialer(id, options.issuer);
    const transport = createConnectTransport({
      baseUrl: `https://127.0.0.1:${port}${actionsPath}`,
      httpVersion: "2",
      nodeOptions: { createConnection: dial },
      interceptors: [withHeaders(callerHeaders(init))],
      ...(options.gzip === true ? { sendCompression: compressionGzip } : {}),
    });
    return createClient(RunnerService, transport);
  }

  it("serves an executor its whole way: task, claim, log, result", async () => {
    const client = await connect(mine.spiffeId);
    assert.equal((await client.fetchTask({})).task?.id, mine.taskId);
    await client.updateTask({ state: { id: mine.taskId } });
    const { ackIndex } = await client.updateLog({ taskId: mine.taskId, index: 0n, rows: [{ content: "x" }] });
    assert.equal(ackIndex, 1n);
    const { state } = await client.updateTask({ state: { id: mine.taskId, result: Result.SUCCESS } });
    assert.equal(state?.result, Result.SUCCESS);
    assert.equal(facade.record(mine).phase.name, "finished");
  });

  const pairs: readonly (readonly [string, Assignment, Assignment])[] = [
    ["of different jobs", mine, other],
    ["of the same job, with the same SPIFFE ID", mine, again],
  ];
  for (const [what, a, b] of pairs) {
    it(`I12 B-71 two executors ${what}: each gets to its own task only, with every mix of SVID, capability and id`, async () => {
      for (const assignment of [a, b]) {
        const client = await connect(assignment.spiffeId, { assignment });
        await client.updateTask({ state: { id: assignment.taskId } });
      }
      const tried: string[] = [];
      for (const svid of new Set([a.spiffeId, b.spiffeId]))
        for (const capability of [a, b])
          for (const named of [a, b]) {
            const init = { assignment: capability, assignmentId: named.id };
            const client = await connect(svid, init);
            for (const { taskId } of [a, b]) {
              const own = svid === named.spiffeId && capability === named && taskId === named.taskId;
              const { length } = facade.gitea.calls;
              const calls = [
                () => client.updateTask({ state: { id: taskId } }),
                () => client.updateLog({ taskId, index: 0n, rows: [{ content: "x" }] }),
              ];
              for (const call of calls) {
                const how = await outcome(call());
                tried.push(how);
                assert.equal(how, own ? "ok" : "PermissionDenied", JSON.stringify({ svid, named: named.id }));
              }
              assert.equal(facade.gitea.calls.length, own ? length + 2 : length);
            }
            const task = await client.fetchTask({}).catch((error: unknown) => ConnectError.from(error).code);
            // Both are claimed, so even the own one is not given out again.
            const legitimate = svid === named.spiffeId && capability === named;
            assert.equal(task, legitimate ? Code.Unauthenticated : Code.PermissionDenied);
          }
      assert.equal(tried.filter((how) => how === "ok").length, 4);
      for (const each of facade.gitea.states) assert.ok([a.taskId, b.taskId].includes(each.state?.id ?? 0n));
    });

    it(`I12 two executors ${what}: neither gets the other's task before the claim`, async () => {
      for (const [svid, capability, named] of [
        [a, b, a],
        [a, a, b],
        [b, a, b],
        [b, b, a],
      ] as const) {
        const client = await connect(svid.spiffeId, { assignment: capability, assignmentId: named.id });
        assert.equal(await outcome(client.fetchTask({})), "PermissionDenied");
      }
      for (const assignment of [a, b]) {
        const client = await connect(assignment.spiffeId, { assignment });
        assert.equal((await client.fetchTask({})).task?.id, assignment.taskId);
      }
    });
  }

  it("I12 gives nothing to an SVID of another CA, and reports it", async () => {
    const client = await connect(mine.spiffeId, {}, { issuer: stranger });
    assert.notEqual(await outcome(client.fetchTask({})), "ok");
    while (refusedPeers.length === 0) await settle();
    assert.equal(refusedPeers[0], "UNABLE_TO_VERIFY_LEAF_SIGNATURE");
    assert.deepEqual(facade.gitea.calls, []);
  });

  it("answers no other path than the five calls", async () => {
    const session = http2.connect(`https://127.0.0.1:${port}`, {
      createConnection: await dialer(mine.spiffeId),
    });
    resources.defer(() => session.destroy());
    for (const path of [
      "/",
      "/api/v1/user",
      `${actionsPath}/ping.v1.PingService/Ping`,
      "/api/actions_pipeline/x",
    ]) {
      const stream = session.request({
        ":method": "POST",
        ":path": path,
        "content-type": "application/proto",
        ...callerHeaders(),
      });
      const { promise, resolve } = Promise.withResolvers<unknown>();
      stream.on("response", (headers) => resolve(headers[":status"]));
      stream.end();
      stream.resume();
      assert.equal(await promise, 404, path);
    }
  });

  for (const gzip of [false, true]) {
    it(`refuses a body over 64 MiB${gzip ? " that came compressed" : ""}, and goes on`, async () => {
      const client = await connect(mine.spiffeId, {}, { gzip });
      await client.updateTask({ state: { id: mine.taskId } });
      const content = "x".repeat(64 * 1024 * 1024);
      const large = client.updateLog({ taskId: mine.taskId, index: 0n, rows: [{ content }] });
      assert.equal(await outcome(large), "ResourceExhausted");
      assert.deepEqual(facade.gitea.logs, []);
      const small = client.updateLog({ taskId: mine.taskId, index: 0n, rows: [{ content: "x" }] });
      assert.equal((await small).ackIndex, 1n);
    });
  }

  for (const claimed of [true, false])
    it(`${claimed ? "fails a job by name" : "does not fail a job"} whose report is over 64 MiB ${claimed ? "after" : "before"} its claim`, async () => {
      const client = await connect(mine.spiffeId);
      if (claimed) await client.updateTask({ state: { id: mine.taskId } });
      const told = facade.gitea.calls.length;
      const outputs = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [i, "x".repeat(1024 * 1024)]));
      const state = { id: mine.taskId, result: Result.SUCCESS };
      assert.equal(await outcome(client.updateTask({ state, outputs })), "ResourceExhausted");
      // In the same actor, behind what may have been begun there.
      await settle();
      await facade.assignments.within(mine.id, () => Promise.resolve());
      const { phase } = facade.record(mine);
      if (!claimed) return assert.equal(phase.name, "starting");
      assert.ok(phase.name === "ending" && phase.end.by === "controller");
      assert.equal(phase.end.failure?.reason, "result_too_large");
      assert.equal(facade.gitea.calls.length, told);
      const repeated = await client.updateTask({ state });
      assert.equal(repeated.state?.result, Result.FAILURE);
    });

  it("takes a backlog of log rows of many megabytes", async () => {
    const client = await connect(mine.spiffeId);
    await client.updateTask({ state: { id: mine.taskId } });
    const content = "x".repeat(16 * 1024 * 1024);
    const { ackIndex } = await client.updateLog({ taskId: mine.taskId, index: 0n, rows: [{ content }] });
    assert.equal(ackIndex, 1n);
  });

  for (const [what, call] of [
    ["its task is over", { result: Result.SUCCESS }],
    ["it is superseded", { instance: "bootstrap-instance-2" }],
  ] as const)
    it(`ends the session of an executor that has heard that ${what}, after the answer`, async () => {
      await (await connect(mine.spiffeId)).updateTask({ state: { id: mine.taskId } });
      const ended = Promise.withResolvers<void>();
      tls.server.once("session", (session) => session.once("close", () => ended.resolve()));
      const client = await connect(mine.spiffeId, "instance" in call ? { instance: call.instance } : {});
      const result = "result" in call ? call.result : Result.UNSPECIFIED;
      const answer = await outcome(client.updateTask({ state: { id: mine.taskId, result } }));
      assert.equal(answer, "result" in call ? "ok" : "Unauthenticated");
      await ended.promise;
      assert.equal(tls.sessions(), 1);
    });

  it("does not lose a result whose caller hangs up in the middle", async () => {
    const client = await connect(mine.spiffeId);
    await client.updateTask({ state: { id: mine.taskId } });
    const release = facade.gitea.hold("updateTask");
    const hangUp = new AbortController();
    const state = { id: mine.taskId, result: Result.SUCCESS };
    const answer = client.updateTask({ state }, { signal: hangUp.signal });
    while (facade.gitea.calls.length < 2) await settle();
    hangUp.abort();
    assert.equal(await outcome(answer), "Canceled");
    release();
    while (facade.marks.length === 0) await settle();
    const { phase } = facade.record(mine);
    assert.ok(phase.name === "finished");
    assert.equal(phase.result, "success");
  });

  it("does not lose a result that waits behind another call when its caller hangs up", async () => {
    const client = await connect(mine.spiffeId);
    await client.updateTask({ state: { id: mine.taskId } });
    const release = facade.gitea.hold("updateTask");
    const hangUp = new AbortController();
    const beat = client.updateTask({ state: { id: mine.taskId } });
    while (facade.gitea.calls.length < 2) await settle();
    const state = { id: mine.taskId, result: Result.FAILURE };
    const answer = client.updateTask({ state }, { signal: hangUp.signal });
    // Another executor's call shows that the facade has read what came before it.
    const neighbour = await connect(other.spiffeId, { assignment: other });
    await neighbour.fetchTask({});
    await client.declare({});
    hangUp.abort();
    assert.equal(await outcome(answer), "Canceled");
    release();
    assert.equal(await outcome(beat), "ok");
    while (facade.marks.length === 0) await settle();
    const { phase } = facade.record(mine);
    assert.ok(phase.name === "finished");
    assert.equal(phase.result, "failure");
  });
});
