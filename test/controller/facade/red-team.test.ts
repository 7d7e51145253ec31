import assert from "node:assert/strict";
import { once } from "node:events";
import http2 from "node:http2";
import net from "node:net";
import tls from "node:tls";
import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { compressionGzip, createConnectTransport } from "@connectrpc/connect-node";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import { actionsPath, callHeaders } from "../../../controller/assignment/executor-call.ts";
import { createFacadeHandler } from "../../../controller/facade/handler.ts";
import { signCapability } from "../../../controller/identity/capability.ts";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { type RefusedPeer, createTlsServer, type TlsServer } from "../../../controller/spiffe/tls-server.ts";
import { Result, RunnerService } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { anAssignment, anAttempt } from "../../support/builders.ts";
import {
  begun,
  type CallerInit,
  callerHeaders,
  createFacadeUnderTest,
  type FacadeUnderTest,
  instance,
  lost,
  withHeaders,
} from "../../support/facade-under-test.ts";
import { hostileCertificates } from "../../support/hostile-certificates.ts";
import { testKeyRing } from "../../support/jetstream.ts";
import { createTestCa, issueLeaf, type TestCa, type TestLeaf } from "../../support/test-pki.ts";
import { asSvid, createSettableSource } from "../spiffe/settable-source.ts";

/*
 * Who tries to get at another job's task through the facade. The victim's job runs; the attacker knows everything
 * that is not a key, the victim's capability among it. Attacks that are told elsewhere:
 *
 * | attack                                                       | test                                          |
 * | ------------------------------------------------------------ | --------------------------------------------- |
 * | every mix of SVID, capability and task id of two jobs        | handler.test.ts, I12                          |
 * | giant bodies, plain and compressed, of an executor           | handler.test.ts                               |
 * | any other path or RPC                                        | handler.test.ts, and below by content type    |
 * | an older attempt, another nonce, another instance: each case | admit.test.ts; over the network below         |
 * | a session that is resumed, TLS 1.2                           | ../spiffe/tls-server.test.ts                  |
 * | a session after the expiry of its certificate                | ../spiffe/tls-server.test.ts                  |
 * | slow bodies, slow readers, floods, too many sessions         | ../spiffe/tls-limits.test.ts                  |
 * | a session whose CA has left the bundle                       | ../spiffe/tls-limits.test.ts                  |
 * | forged capabilities, character by character                  | ../identity/capability.test.ts                |
 * | a second bootstrap of an attempt, on its own machine         | ../bootstrap/only-one.test.ts                 |
 * | the runner protocol through the loopback address             | ../bootstrap/red-team.test.ts                 |
 */

const facadeId = parseSpiffeId("spiffe://example.org/controller");
const victim = anAssignment();
const attacker = anAssignment({ taskId: 43n, repository: "mallory/trap", jobKey: "build" });

describe("an attack on the facade", () => {
  let ca: TestCa;
  let stranger: TestCa;
  let federated: TestCa;
  let facade: FacadeUnderTest;
  let server: TlsServer;
  let port: number;
  let refusals: RefusedPeer[];
  let victimsClient: Client<typeof RunnerService>;
  let resources: AsyncDisposableStack;

  before(async () => {
    [ca, stranger, federated] = await Promise.all([
      createTestCa(),
      createTestCa(),
      createTestCa("federated.example"),
    ]);
  });
  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    facade = createFacadeUnderTest();
    refusals = [];
    const source = createSettableSource(asSvid(facadeId, await issueLeaf(ca, facadeId), ca));
    server = createTlsServer({
      source,
      clock: systemClock,
      onRefused: (peer) => refusals.push(peer),
      limits: { closeGraceMs: 200 },
    });
    resources.use(server);
    const { server: http } = server;
    http.on(
      "request",
      createFacadeHandler({
        ...facade.options,
        peerOf: (session) => server.peerOf(session),
        endSoon: (session) => server.endSoon(session),
      }),
    );
    ({ port } = await server.listen({ host: "127.0.0.1", port: 0 }));
    for (const assignment of [victim, attacker]) await facade.started(assignment);
    victimsClient = connect(await issueLeaf(ca, victim.spiffeId));
    await victimsClient.updateTask({ state: { id: victim.taskId } });
  });
  afterEach(() => resources.disposeAsync());

  const dial = (leaf: TestLeaf | undefined, options: tls.ConnectionOptions = {}) => {
    const socket = tls.connect({
      host: "127.0.0.1",
      port,
      ca: [ca.pem],
      ALPNProtocols: ["h2"],
      checkServerIdentity: () => undefined,
      ...(leaf && { cert: leaf.chainPem, key: leaf.keyPem }),
      ...options,
    });
    socket.on("error", () => undefined);
    resources.defer(() => void socket.destroy());
    return socket;
  };

  /** A client with this certificate, that says what `init` says: as the victim unless given. */
  function connect(leaf: TestLeaf | undefined, init: CallerInit = {}, gzip = false) {
    const transport = createConnectTransport({
      baseUrl: `https://127.0.0.1:${port}${actionsPath}`,
      httpVersion: "2",
      nodeOptions: { createConnection: () => dial(leaf) },
      interceptors: [withHeaders(callerHeaders({ assignment: victim, ...init }))],
      ...(gzip ? { sendCompression: compressionGzip, compressMinBytes: 0 } : {}),
    });
    return createClient(RunnerService, transport);
  }

  /**
   * Everything that an executor may do, done to the victim's task; how each ended. Each on a connection of its own: the first
   * refusal ends its session soon, and what is still tried there may meet that end instead of a refusal.
   */
  async function tryAll(connected: () => Client<typeof RunnerService>): Promise<readonly string[]> {
    const { taskId } = victim;
    const calls = [
      () => connected().declare({ labels: ["self-hosted", "pod"] }),
      () => connected().fetchTask({}),
      () => connected().updateTask({ state: { id: taskId, result: Result.SUCCESS } }),
      () => connected().updateLog({ taskId, index: 0n, rows: [{ content: "owned" }] }),
    ];
    const outcomes: string[] = [];
    for (const call of calls) {
      try {
        await call();
        outcomes.push("ok");
      } catch (error) {
        outcomes.push(Code[ConnectError.from(error).code]);
      }
    }
    return outcomes;
  }

  /** What Gitea and the record know of the victim's job is only what its own executor said, and it can go on. */
  async function untouched(): Promise<void> {
    const { phase } = facade.record(victim);
    assert.ok(phase.name === "claimed");
    assert.equal(phase.claim.instance, instance);
    assert.deepEqual(facade.gitea.calls, ["updateTask"]);
    const { taskId } = victim;
    const { ackIndex } = await victimsClient.updateLog({ taskId, index: 0n, rows: [{ content: "mine" }] });
    assert.equal(ackIndex, 1n);
    await victimsClient.updateTask({ state: { id: taskId, result: Result.SUCCESS } });
    const { phase: ended } = facade.record(victim);
    assert.equal(ended.name === "finished" && ended.result, "success");
    assert.deepEqual(
      facade.gitea.logs.flatMap(({ rows }) => rows.map(({ content }) => content)),
      ["mine"],
    );
  }

  /** Nothing was answered, or said more than that it is refused. */
  const allRefused = (outcomes: readonly string[]) => {
    for (const how of outcomes)
      assert.ok(["PermissionDenied", "Canceled", "Internal", "Unavailable", "Aborted"].includes(how), how);
  };

  const { spiffeId } = victim;
  const ids = { victim: spiffeId, own: attacker.spiffeId, facade: facadeId };
  for (const { what, options, issuer } of hostileCertificates(ids)) {
    it(`with ${what} and the victim's capability gets nothing, and the job goes on`, async () => {
      const from = issuer === undefined ? ca : issuer === "stranger" ? stranger : federated;
      const leaf = await issueLeaf(from, spiffeId, options());
      allRefused(await tryAll(() => connect(leaf)));
      assert.ok(refusals.length + facade.refused.length > 0, "nobody was told");
      await untouched();
    });
  }

  it("without a certificate and with the victim's capability gets nothing, and the job goes on", async () => {
    allRefused(await tryAll(() => connect(undefined)));
    assert.deepEqual(new Set(refusals.map(({ kind }) => kind)), new Set(["no-certificate"]));
    await untouched();
  });

  const capabilities: readonly (readonly [string, CallerInit])[] = [
    ["no capability", { capability: "" }],
    ["the capability of a job of its own", { assignment: attacker, assignmentId: victim.id }],
    [
      "a capability of a key of its own",
      {
        capability: signCapability(testKeyRing(9), {
          assignmentId: victim.id,
          spiffeId,
          attempt: anAttempt(),
        }),
      },
    ],
    ["a capability for two assignments at once", { assignmentId: `${attacker.id}, ${victim.id}` }],
  ];
  for (const [what, init] of capabilities) {
    it(`with the victim's own SVID and ${what} gets nothing, and the job goes on`, async () => {
      const leaf = await issueLeaf(ca, spiffeId);
      allRefused(await tryAll(() => connect(leaf, init)));
      assert.deepEqual(new Set(facade.refused.map(({ kind }) => kind)), new Set(["capability"]));
      await untouched();
    });
  }

  it("by a second instance of the victim's own attempt ends that instance, and the job goes on", async () => {
    const leaf = await issueLeaf(ca, spiffeId);
    const second = () => connect(leaf, { instance: "bootstrap-instance-2" });
    assert.deepEqual(new Set(await tryAll(second)), new Set(["Unauthenticated"]));
    assert.deepEqual(new Set(facade.refused.map(({ kind }) => kind)), new Set(["superseded"]));
    await untouched();
  });

  for (const [what, attempt, code] of [
    ["an older attempt", anAttempt(), Code.Unauthenticated],
    [
      "the current attempt's number and another nonce",
      anAttempt({ number: 2, nonce: "f".repeat(32) }),
      Code.Unauthenticated,
    ],
    ["a later attempt than the record knows of", anAttempt({ number: 3 }), Code.Unavailable],
  ] as const)
    it(`by ${what} with a good capability is answered ${Code[code]}, and the current one goes on`, async () => {
      const job = anAssignment({ taskId: 44n });
      await facade.started(job);
      await facade.apply(lost(anAttempt()), job);
      await facade.apply(begun(anAttempt({ number: 2 }).nonce), job);
      const leaf = await issueLeaf(ca, job.spiffeId);
      const old = connect(leaf, { assignment: job, attempt });
      await assert.rejects(
        old.updateTask({ state: { id: job.taskId, result: Result.SUCCESS } }),
        (error) => ConnectError.from(error).code === code,
      );
      const current = connect(leaf, { assignment: job, attempt: anAttempt({ number: 2 }) });
      assert.equal((await current.fetchTask({})).task?.id, job.taskId);
      await untouched();
    });

  it("that repeats what the victim said, after its end, changes nothing in Gitea", async () => {
    const { taskId } = victim;
    await victimsClient.updateTask({ state: { id: taskId, result: Result.SUCCESS } });
    const { length } = facade.gitea.calls;
    const leaf = await issueLeaf(ca, spiffeId);
    const again = await connect(leaf).updateTask({ state: { id: taskId, result: Result.FAILURE } });
    assert.equal(again.state?.result, Result.SUCCESS);
    const { phase } = facade.record(victim);
    assert.equal(phase.name === "finished" && phase.result, "success");
    assert.equal(facade.gitea.calls.length, length);
  });

  it("that registers a runner, or declares other labels, never reaches Gitea", async () => {
    const own = connect(await issueLeaf(ca, attacker.spiffeId), { assignment: attacker });
    await assert.rejects(own.register({ name: "x", token: "y", labels: ["vm"] }), (error) => {
      assert.equal(ConnectError.from(error).code, Code.PermissionDenied);
      return true;
    });
    const { runner } = await own.declare({ labels: ["self-hosted", "vm", "production"], version: "v99" });
    assert.deepEqual([runner?.uuid, runner?.token], ["", ""]);
    assert.deepEqual(
      facade.refused.map(({ kind }) => kind),
      ["register"],
    );
    await untouched();
  });

  for (const gzip of [false, true])
    it(`without a capability may send ${gzip ? "a compressed body of a few bytes that would grow" : "no body"} beyond 64 KiB`, async () => {
      const client = connect(await issueLeaf(ca, attacker.spiffeId), { capability: "" }, gzip);
      const content = "x".repeat(gzip ? 16 * 1024 * 1024 : 1024 * 1024);
      const call = client.updateLog({ taskId: victim.taskId, index: 0n, rows: [{ content }] });
      await assert.rejects(call, (error) => ConnectError.from(error).code === Code.ResourceExhausted);
      await untouched();
    });

  it("by an executor that sends many large bodies at once is let send four of them", async () => {
    const client = connect(await issueLeaf(ca, attacker.spiffeId), { assignment: attacker });
    await client.updateTask({ state: { id: attacker.taskId } });
    const release = facade.gitea.hold("updateLog");
    const content = "x".repeat(1024 * 1024);
    const request = { taskId: attacker.taskId, index: 0n, rows: [{ content }] };
    const outcomes: string[] = [];
    const calls = Array.from({ length: 10 }, async () => {
      try {
        await client.updateLog(request);
        outcomes.push("ok");
      } catch (error) {
        outcomes.push(Code[ConnectError.from(error).code] ?? "");
      }
    });
    while (outcomes.length < 6) await settle();
    assert.deepEqual(new Set(outcomes), new Set(["ResourceExhausted"]));
    release();
    await Promise.all(calls);
    assert.equal(outcomes.filter((how) => how === "ok").length, 4);
    // Room again, as soon as they are through.
    assert.equal((await client.updateLog(request)).ackIndex, 1n);
    assert.equal(facade.record(victim).phase.name, "claimed");
  });

  it("by an executor that hangs up on each large body has no more of them in memory for it", async () => {
    const client = connect(await issueLeaf(ca, attacker.spiffeId), { assignment: attacker });
    await client.updateTask({ state: { id: attacker.taskId } });
    const release = facade.gitea.hold("updateLog");
    const content = "x".repeat(1024 * 1024);
    const request = { taskId: attacker.taskId, index: 0n, rows: [{ content }] };
    // The first one is with Gitea, the others wait behind it, also when nobody waits for their answers any more.
    for (let sent = 0; sent < 4; sent++) {
      const hangUp = new AbortController();
      const call = client.updateLog(request, { signal: hangUp.signal }).catch(() => undefined);
      // Behind its body on the same session: an answer shows that the body was read.
      await client.declare({});
      hangUp.abort();
      await call;
    }
    await assert.rejects(
      client.updateLog(request),
      (error) => ConnectError.from(error).code === Code.ResourceExhausted,
    );
    release();
    while ((await client.updateLog(request).catch(() => undefined)) === undefined) await settle();
  });

  for (const [what, init] of [
    ["a task that is not known", { assignment: anAssignment({ taskId: 99n }) }],
    ["another's task", { assignment: attacker, assignmentId: victim.id }],
  ] as const)
    it(`with a capability for ${what} may send no large body`, async () => {
      const client = connect(await issueLeaf(ca, anAssignment(init.assignment).spiffeId), init);
      const content = "x".repeat(1024 * 1024);
      const call = client.updateLog({ taskId: 99n, index: 0n, rows: [{ content }] });
      await assert.rejects(call, (error) => ConnectError.from(error).code === Code.ResourceExhausted);
      await untouched();
    });

  it("by an older attempt may send no large body, and takes no place of the current one's", async () => {
    const job = anAssignment({ taskId: 44n });
    await facade.started(job);
    await facade.apply(lost(anAttempt()), job);
    await facade.apply(begun(anAttempt({ number: 2 }).nonce), job);
    const leaf = await issueLeaf(ca, job.spiffeId);
    const old = connect(leaf, { assignment: job, attempt: anAttempt() });
    const rows = [{ content: "x".repeat(1024 * 1024) }];
    const call = old.updateLog({ taskId: job.taskId, index: 0n, rows });
    await assert.rejects(call, (error) => ConnectError.from(error).code === Code.ResourceExhausted);
    await untouched();
  });

  it("by hundreds of connections that say nothing keeps no executor out that is there", async () => {
    const flood = Array.from({ length: 400 }, () => net.connect(port, "127.0.0.1"));
    for (const socket of flood) socket.on("error", () => undefined);
    // All but the 128 that shake hands.
    while (refusals.length < 272) await settle();
    assert.ok(refusals.every(({ kind }) => kind === "too-many"));
    await untouched();
    for (const socket of flood) socket.destroy();
  });

  it("by hundreds of sessions with one SVID leaves room for all others", async () => {
    const leaf = await issueLeaf(ca, attacker.spiffeId);
    let opened = 0;
    for (let round = 0; round < 4; round++) {
      const sockets = Array.from({ length: 50 }, () => dial(leaf));
      await Promise.all(
        sockets.map(async (socket) => {
          await once(socket, "secureConnect");
          const session = http2.connect("https://facade.invalid", { createConnection: () => socket });
          session.on("error", () => undefined);
          resources.defer(() => session.destroy());
          await new Promise((done) => session.once("remoteSettings", done).once("close", done));
          opened++;
        }),
      );
    }
    assert.equal(opened, 200);
    assert.equal(
      refusals.filter(({ kind, spiffeId: id }) => kind === "too-many" && id === attacker.spiffeId).length,
      136,
    );
    const newcomer = connect(await issueLeaf(ca, spiffeId));
    assert.ok(await newcomer.declare({}));
    await untouched();
  });

  for (const [what, options] of [
    ["HTTP/1.1 after an honest handshake", { ALPNProtocols: ["http/1.1"] }],
    ["HTTP/1.1 without saying so", { ALPNProtocols: [] }],
    ["HTTP/1.1 after it promised HTTP/2", {}],
  ] as const)
    it(`in ${what} gets no answer from the protocol`, async () => {
      const socket = dial(await issueLeaf(ca, spiffeId), options);
      const headers = Object.entries({ ...callerHeaders(), host: "x", "content-length": "0" });
      const path = `${actionsPath}/${RunnerService.typeName}/FetchTask`;
      socket.write(
        `POST ${path} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join("")}content-type: application/proto\r\n\r\n`,
      );
      let answer = "";
      socket.on("data", (chunk: Buffer) => (answer += chunk.toString("latin1")));
      await new Promise((done) => socket.once("close", done).once("error", done));
      assert.doesNotMatch(answer, /HTTP\/1.1 2/);
      assert.deepEqual(facade.gitea.calls, ["updateTask"]);
      await untouched();
    });

  it("by other protocols on the same paths, and by other methods, is no call", async () => {
    const leaf = await issueLeaf(ca, spiffeId);
    const session = http2.connect("https://facade.invalid", { createConnection: () => dial(leaf) });
    resources.defer(() => session.destroy());
    const path = `${actionsPath}/${RunnerService.typeName}/FetchTask`;
    const ask = async (headers: http2.OutgoingHttpHeaders) => {
      const stream = session.request({ ":path": path, ":method": "POST", ...callerHeaders(), ...headers });
      const response = once(stream, "response");
      stream.end();
      stream.resume();
      const [answer] = (await response) as [http2.IncomingHttpHeaders];
      return answer[":status"];
    };
    for (const type of [
      "application/grpc",
      "application/grpc-web+proto",
      "text/plain",
      "application/connect+proto",
    ])
      assert.equal(await ask({ "content-type": type }), 415, type);
    for (const method of ["GET", "PUT", "DELETE", "OPTIONS", "HEAD"])
      assert.ok(
        [405, 415].includes(Number(await ask({ ":method": method, "content-type": "application/proto" }))),
        method,
      );
    for (const other of [
      path.toLowerCase(),
      path.replace("FetchTask", "fetchTask"),
      `${path}/`,
      `/${path}`,
      path.replace("/api/", "/api/./"),
      path.replace("RunnerService", "RunnerService%2f"),
    ])
      assert.equal(await ask({ ":path": other, "content-type": "application/proto" }), 404, other);
    await untouched();
  });

  for (const [what, who] of [
    ["a name", { ":authority": "[" }],
    ["a port", { ":authority": "x:99999" }],
    ["a Host header", { host: "[" }],
  ] as const)
    it(`with ${what} of which no URL can be made is answered, told, and ends nothing but its call`, async () => {
      const leaf = await issueLeaf(ca, attacker.spiffeId);
      const session = http2.connect("https://facade.invalid", { createConnection: () => dial(leaf) });
      resources.defer(() => session.destroy());
      const stream = session.request({
        ":path": `${actionsPath}/${RunnerService.typeName}/FetchTask`,
        ":method": "POST",
        "content-type": "application/proto",
        ...who,
      });
      const response = once(stream, "response");
      stream.end();
      stream.resume();
      const [answer] = (await response) as [http2.IncomingHttpHeaders];
      assert.equal(answer[":status"], 400);
      assert.deepEqual(
        facade.refused.map(({ kind, method, spiffeId: id }) => [kind, method, id]),
        [["malformed", "FetchTask", attacker.spiffeId]],
      );
      await untouched();
    });

  it("that sends each of its headers twice is not taken for either", async () => {
    const leaf = await issueLeaf(ca, spiffeId);
    const session = http2.connect("https://facade.invalid", { createConnection: () => dial(leaf) });
    resources.defer(() => session.destroy());
    const own = callerHeaders({ assignment: attacker });
    const twice = Object.fromEntries(
      Object.entries(callerHeaders()).map(([name, value]) => [name, [value, own[name] ?? ""]]),
    );
    const stream = session.request({
      ":path": `${actionsPath}/${RunnerService.typeName}/FetchTask`,
      ":method": "POST",
      "content-type": "application/proto",
      ...twice,
    });
    const response = once(stream, "response");
    stream.end();
    stream.resume();
    const [answer] = (await response) as [http2.IncomingHttpHeaders];
    assert.equal(answer[":status"], 403);
    assert.ok(callHeaders.capability in twice);
    await untouched();
  });
});
