import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";
import net from "node:net";
import { afterEach, beforeEach, describe, it } from "mocha";
import { signCapability } from "../../controller/identity/capability.ts";
import { parseKeyRing } from "../../controller/identity/key-ring.ts";
import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import { facadeId } from "../../scripts/quick-start/identities.ts";
import { eventually } from "../support/eventually.ts";
import {
  callPath,
  createFacadeAttacker,
  type FacadeAttacker,
  outcome,
  saidHeaders,
  tryAll,
} from "../support/facade-attacker.ts";
import { useFacadeUnderAttack } from "../support/facade-under-attack.ts";
import { hostileCertificates } from "../support/hostile-certificates.ts";
import { testKeyRing } from "../support/jetstream.ts";

/*
 * Who attacks the facade of a real controller, while a job of a real Gitea runs. He can have any certificate, also of
 * the right CA (its key is read from the development Workload API's folder), he knows the victim's capability, and an
 * executor of his own does what he wants. After each attack the victim says something, and Gitea has that and no more.
 * What a job can do from inside is in red-team.test.ts.
 */

const denied = "PermissionDenied";
const final = "Unauthenticated";

describe("an attack on the facade of a real job", () => {
  const under = useFacadeUnderAttack();
  const { real, victimsId, mallorysId, victim, earlier, mallory, leafOf, refused, untouched } = under;
  let attacker: FacadeAttacker;
  beforeEach(() => {
    attacker = createFacadeAttacker(facadeUrl());
  });
  afterEach(() => attacker[Symbol.asyncDispose]());

  const facadeUrl = () => real.platform.environment["RUNNER_FACADE_URL"] ?? "";
  const asVictim = () => ({ assignmentId: victim().assignmentId, capability: victim().capability });
  const asMallory = () => ({ assignmentId: mallory().assignmentId, capability: mallory().capability });

  for (const { what, options, issuer = "ours" } of hostileCertificates({
    victim: victimsId,
    own: mallorysId,
    facade: facadeId,
  }))
    it(`with ${what} and the victim's capability is refused`, async () => {
      const told = await refused();
      const leaf = await leafOf(victimsId, options(), issuer);
      const outcomes = await tryAll(attacker.client(leaf, asVictim()), victim().taskId);
      for (const how of outcomes)
        assert.ok([denied, "Canceled", "Internal", "Unavailable", "Aborted"].includes(how), how);
      assert.ok((await refused()) > told, "nobody was told");
      await untouched();
    });

  it("without a certificate is refused", async () => {
    const told = await refused("no-certificate");
    const outcomes = await tryAll(attacker.client(undefined, asVictim()), victim().taskId);
    assert.ok(!outcomes.includes("ok"));
    assert.ok((await refused("no-certificate")) > told);
    await untouched();
  });

  it("with the right ID and another assignment's capability, none, or a forged one is refused", async () => {
    const attempt = { number: 1, nonce: "0".repeat(32) };
    const forged = { assignmentId: victim().assignmentId, spiffeId: victimsId, attempt };
    for (const capability of [mallory().capability, "", signCapability(testKeyRing(9), forged)]) {
      const client = attacker.client(await leafOf(victimsId), { ...asVictim(), capability });
      assert.deepEqual(new Set(await tryAll(client, victim().taskId)), new Set([denied]));
    }
    await untouched();
  });

  it("with the right capability and an ID of its own is refused", async () => {
    const client = attacker.client(await leafOf(mallorysId), asVictim());
    assert.deepEqual(new Set(await tryAll(client, victim().taskId)), new Set([denied]));
    await untouched();
  });

  it("with the right ID and capability, by another instance than the one that claimed, is refused for good", async () => {
    const client = attacker.client(await leafOf(victimsId), asVictim());
    assert.deepEqual(await tryAll(client, victim().taskId), [final, final, final, final, denied]);
    await untouched();
  });

  it("by an older attempt is refused for good", async () => {
    const { assignmentId, capability } = earlier();
    const client = attacker.client(await leafOf(mallorysId), { assignmentId, capability });
    assert.deepEqual(await tryAll(client, mallory().taskId), [final, final, final, final, denied]);
    await untouched();
  });

  it("by the current attempt's number with another nonce is refused for good, also if a key of ours has signed it", async () => {
    const keyRing = parseKeyRing(
      await readFile(real.platform.environment["CAPABILITY_KEY_FILE"] ?? "", "utf8"),
    );
    const attempt = { number: 2, nonce: "f".repeat(32) };
    const { assignmentId } = mallory();
    const capability = signCapability(keyRing, { assignmentId, spiffeId: mallorysId, attempt });
    const client = attacker.client(await leafOf(mallorysId), { assignmentId, capability });
    assert.deepEqual(await tryAll(client, mallory().taskId), [final, final, final, final, denied]);
    await untouched();
  });

  it("with its own ID and capability, and the victim's task id in UpdateTask, is refused before and after its claim", async () => {
    const client = attacker.client(await leafOf(mallorysId), asMallory());
    const steal = () =>
      outcome(
        client.updateTask({ state: { id: victim().taskId, result: Result.FAILURE }, outputs: { x: "y" } }),
      );
    assert.equal((await client.fetchTask({})).task?.id, mallory().taskId);
    assert.equal(await steal(), denied);
    await client.updateTask({ state: { id: mallory().taskId } });
    assert.equal(await steal(), denied);
    assert.equal(await outcome(client.fetchTask({})), final);
    await untouched();
  });

  it("with its own ID and capability, and the victim's task id in UpdateLog, is refused", async () => {
    const client = attacker.client(await leafOf(mallorysId), asMallory());
    for (const index of [0n, 1n, 1_000n])
      for (const noMore of [false, true]) {
        const rows = [{ content: "owned" }];
        assert.equal(
          await outcome(client.updateLog({ taskId: victim().taskId, index, rows, noMore })),
          denied,
        );
      }
    await untouched();
  });

  it("by Register is refused", async () => {
    const client = attacker.client(await leafOf(mallorysId), asMallory());
    assert.equal(await outcome(client.register({ name: "x", token: "y", labels: ["vm"] })), denied);
    await untouched();
  });

  it("by Declare with other labels reaches nobody", async () => {
    const client = attacker.client(await leafOf(mallorysId), asMallory());
    const { runner } = await client.declare({ labels: ["self-hosted", "production"], version: "v99" });
    assert.deepEqual([runner?.uuid, runner?.token], ["", ""]);
    await untouched();
  });

  for (const gzip of [false, true])
    it(`by giant bodies${gzip ? " that come compressed" : ""} is refused`, async () => {
      const leaf = await leafOf(mallorysId);
      const content = "x".repeat(65 * 1024 * 1024);
      const giant = { taskId: mallory().taskId, index: 0n, rows: [{ content }] };
      const small = { ...giant, rows: [{ content: "x".repeat(65 * 1024) }] };
      const attacks = [
        [asMallory(), giant],
        [{ ...asMallory(), capability: "" }, small],
        [asVictim(), small],
      ] as const;
      for (const [headers, request] of attacks) {
        const how = await outcome(attacker.client(leaf, headers, gzip).updateLog(request));
        assert.ok(["ResourceExhausted", "Canceled", "Internal", "Unavailable"].includes(how), how);
      }
      await untouched();
    });

  it("by bodies that never end is refused", async () => {
    const told = await refused("too-slow");
    const session = attacker.session(await leafOf(mallorysId));
    const headers = { "content-type": "application/proto", ...saidHeaders(asMallory()) };
    const streams = Array.from({ length: 8 }, () => {
      const stream = session.request({ ":method": "POST", ":path": callPath("UpdateLog"), ...headers });
      stream.write("x");
      return stream;
    });
    const codes = await Promise.all(
      streams.map(async (stream) => {
        stream.on("error", () => undefined);
        await new Promise((done) => stream.once("close", done));
        return stream.rstCode;
      }),
    );
    assert.deepEqual(new Set(codes), new Set([constants.NGHTTP2_ENHANCE_YOUR_CALM]));
    assert.equal(await refused("too-slow"), told + 8);
    await untouched();
  });

  it("by thousands of connections keeps nobody out who is there", async () => {
    const told = await refused("too-many");
    const { hostname, port } = new URL(facadeUrl());
    using flood = new DisposableStack();
    // In waves, or the system itself would drop some of them.
    for (let opened = 250; opened <= 3_000; opened += 250) {
      for (let count = 0; count < 250; count++) {
        const socket = net.connect(Number(port), hostname).on("error", () => undefined);
        flood.defer(() => void socket.destroy());
      }
      // All but those that shake hands, and had time to give up doing so.
      await eventually("they are refused", async () => (await refused("too-many")) - told > opened - 500);
    }
    await untouched();
  });

  it("in HTTP/1.1 is no call", async () => {
    for (const options of [{ ALPNProtocols: ["http/1.1"] }, { ALPNProtocols: [] }, {}]) {
      const socket = attacker.dial(await leafOf(victimsId), options);
      const headers = Object.entries({ ...saidHeaders(asVictim()), host: "x", "content-length": "0" });
      const lines = [
        `POST ${callPath("FetchTask")} HTTP/1.1`,
        "content-type: application/proto",
        ...headers.map(([name, value]) => `${name}: ${value}`),
      ];
      socket.write(`${lines.join("\r\n")}\r\n\r\n`);
      let answer = "";
      socket.on("data", (chunk: Buffer) => (answer += chunk.toString("latin1")));
      await new Promise((done) => socket.once("close", done).once("error", done));
      assert.doesNotMatch(answer, /HTTP\/1.1 2/);
    }
    await untouched();
  });

  it("by a session that is resumed after its certificate has expired is refused", async () => {
    const notAfter = Math.floor(Date.now() / 1000) * 1000 + 4_000;
    const leaf = await leafOf(victimsId, { notAfter });
    const first = attacker.dial(leaf);
    const tickets: Buffer[] = [];
    first.on("session", (ticket) => tickets.push(ticket));
    await once(first, "secureConnect");
    const session = tickets[0] ?? first.getSession();
    assert.ok(session !== undefined);
    await eventually("it has expired", () => Date.now() > notAfter);
    const told = await refused();
    for (const certificate of [undefined, leaf]) {
      const again = attacker.dial(certificate, { session });
      await new Promise((done) => again.once("close", done));
      assert.ok(!again.isSessionReused());
    }
    assert.ok((await refused()) >= told + 2);
    await untouched();
  });

  it("by an RPC that nobody knows, and by paths around those that are known, is no call", async () => {
    const session = attacker.session(await leafOf(mallorysId));
    const ask = async (headers: OutgoingHttpHeaders) => {
      const stream = session.request({
        ":method": "POST",
        "content-type": "application/proto",
        ...saidHeaders(asMallory()),
        ...headers,
      });
      stream.end();
      stream.resume();
      const [answer] = (await once(stream, "response")) as [IncomingHttpHeaders];
      return answer[":status"];
    };
    const known = callPath("UpdateTask");
    for (const unknown of [
      callPath("CancelTask"),
      known.replace("runner.v1.RunnerService/UpdateTask", "ping.v1.PingService/Ping"),
      known.replace("/api/actions", ""),
      known.replace("/api/", "/x/../api/"),
      known.replace("UpdateTask", "%55pdateTask"),
      `/${known}`,
      "/api/v1/admin/users",
      "/",
    ])
      assert.equal(await ask({ ":path": unknown }), 404, unknown);
    for (const method of ["GET", "PUT", "DELETE", "OPTIONS"])
      assert.equal(await ask({ ":method": method, ":path": known }), 405, method);
    assert.equal(await ask({ ":path": known, "content-type": "application/grpc" }), 415);
    await untouched();
  });

  it("by a call to a name of which no URL can be made ends nothing but that call", async () => {
    const told = await refused("malformed");
    const session = attacker.session(await leafOf(mallorysId));
    for (const name of [{ ":authority": "[" }, { ":authority": "x:99999" }, { host: "[" }]) {
      const headers = { "content-type": "application/proto", ...name };
      const stream = session.request({ ":method": "POST", ":path": callPath("FetchTask"), ...headers });
      stream.end();
      stream.resume();
      const [answer] = (await once(stream, "response")) as [IncomingHttpHeaders];
      assert.equal(answer[":status"], 400);
    }
    assert.equal(await refused("malformed"), told + 3);
    await untouched();
  });

  it("that repeats its report after the terminal, or says another one, changes nothing in Gitea", async () => {
    const client = attacker.client(await leafOf(mallorysId), asMallory());
    const { taskId } = mallory();
    await client.updateTask({ state: { id: taskId, result: Result.SUCCESS } });
    const [job] = await under.mallorysRun().jobs();
    assert.equal(job?.conclusion, "success");
    for (const result of [Result.FAILURE, Result.UNSPECIFIED, Result.SUCCESS])
      for (const id of [taskId, victim().taskId])
        await outcome(client.updateTask({ state: { id, result }, outputs: { late: "value" } }));
    assert.notEqual(await outcome(client.fetchTask({})), "ok");
    const rows = [{ content: "owned" }];
    for (const index of [0n, 1n, 1_000n])
      assert.notEqual(await outcome(client.updateLog({ taskId: victim().taskId, index, rows })), "ok");
    assert.equal((await under.mallorysRun().jobs())[0]?.conclusion, "success");
    await untouched();
  });

  it("has left the victim's job its own result and its own log, and no capability in ours", async () => {
    await under.endsWell();
    const text = JSON.stringify(real.lines);
    for (const { capability } of [victim(), earlier(), mallory()]) assert.ok(!text.includes(capability));
  });
});
