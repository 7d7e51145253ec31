import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { describeError } from "../../../controller/platform/errors.ts";
import { createTlsServer } from "../../../controller/spiffe/tls-server.ts";
import { type AgentsClient, createAgentsClient } from "../../../controller/spire-server/agents-client.ts";
import { SpireServerError, type SpireServerTrouble } from "../../../controller/spire-server/server-error.ts";
import { createFakeSpireServer, type FakeSpireServer } from "../../fakes/fake-spire-server.ts";
import { createTestCa, issueLeaf, type TestCa } from "../../support/test-pki.ts";
import { asSvid, createSettableSource, type SettableSource } from "../spiffe/settable-source.ts";

const ourId = parseSpiffeId("spiffe://example.org/controller");
const { signal } = new AbortController();

function trouble(kind: SpireServerTrouble, message: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof SpireServerError, String(error));
    assert.equal(error.trouble, kind, describeError(error));
    assert.match(describeError(error), message);
    return true;
  };
}

describe("the API for agents of a SPIRE server", () => {
  let ca: TestCa;
  let source: SettableSource;
  let server: FakeSpireServer;
  let stack: AsyncDisposableStack;

  before(async () => {
    ca = await createTestCa();
    source = createSettableSource(asSvid(ourId, await issueLeaf(ca, ourId), ca));
  });
  beforeEach(() => {
    stack = new AsyncDisposableStack();
    server = stack.use(createFakeSpireServer("example.org"));
  });
  afterEach(() => stack.disposeAsync());

  const join = (name: string, more: object = {}) =>
    server.agents.set(`/spire/agent/join_token/${name}`, {
      path: `/spire/agent/join_token/${name}`,
      type: "join_token",
      expiresAt: 1_000,
      ...more,
    });

  describe("by its own socket", () => {
    let client: AgentsClient;
    let socket: string;
    let clientWith: (callMs: number) => AgentsClient;
    beforeEach(async () => {
      const folder = await mkdtemp(path.join(tmpdir(), "spire-server-"));
      stack.defer(() => rm(folder, { recursive: true, force: true }));
      socket = path.join(folder, "api.sock");
      await server.listen(socket);
      const address = { kind: "unix", path: socket } as const;
      clientWith = (callMs) =>
        stack.use(
          createAgentsClient({ address, trustDomain: "example.org", source, clock: systemClock, callMs }),
        );
      client = clientWith(50_000);
    });

    it("takes a token that we have chosen, for a time", async () => {
      await client.createJoinToken("ci.x.1", 600, signal);
      assert.deepEqual([...server.tokens], [["ci.x.1", 600]]);
    });

    it("lists those that have joined by a token, of all pages, and no others", async () => {
      for (let number = 0; number < 5; number++) join(`t${number}`, { expiresAt: 1_000 + number });
      join("banned", { banned: true });
      server.agents.set("psat", { path: "/spire/agent/k8s_psat/x", type: "k8s_psat", expiresAt: 1 });
      server.pageSize = 2;
      assert.deepEqual(
        (await client.listJoined(signal)).map(({ id, expiresAt }) => [id, expiresAt]),
        [0, 1, 2, 3, 4].map((number) => [
          `spiffe://example.org/spire/agent/join_token/t${number}`,
          (1_000 + number) * 1_000,
        ]),
      );
      assert.deepEqual(server.pages, [200, 200, 200]);
    });

    it("forgets an agent; one that is gone is told and no error", async () => {
      join("t");
      const id = parseSpiffeId("spiffe://example.org/spire/agent/join_token/t");
      assert.equal(await client.delete(id, signal), true);
      assert.equal(server.agents.size, 0);
      assert.equal(await client.delete(id, signal), false);
    });

    it("is tried anew at the next call after it was away", async () => {
      await client.listJoined(signal);
      await server.stop();
      await assert.rejects(
        client.listJoined(signal),
        trouble("outage", /listing agents at SPIRE server unix:/),
      );
      await server.listen(socket);
      assert.deepEqual(await client.listJoined(signal), []);
    });

    it("has to answer in time", async () => {
      server.answers.push("hang");
      await assert.rejects(clientWith(500).listJoined(signal), trouble("outage", /deadline_exceeded/));
    });

    it("is left alone as soon as the signal says so", async () => {
      server.answers.push("hang");
      const over = new AbortController();
      const call = client.listJoined(over.signal);
      const reason = new Error("enough");
      over.abort(reason);
      await assert.rejects(call, (error) => error === reason);
      await assert.rejects(client.delete(ourId, over.signal), (error) => error === reason);
    });

    it("says no token in an error, whatever the server says", async () => {
      server.answers.push(new ConnectError("token ci.secret.1 is taken", Code.AlreadyExists));
      await assert.rejects(client.createJoinToken("ci.secret.1", 600, signal), (error) => {
        assert.ok(!JSON.stringify([describeError(error), String((error as Error).stack)]).includes("secret"));
        return trouble("refused", /making a join token at .*token \[token\] is taken/)(error);
      });
    });

    for (const [code, kind] of [
      [Code.PermissionDenied, "denied"],
      [Code.Unauthenticated, "denied"],
      [Code.InvalidArgument, "refused"],
      [Code.Unimplemented, "refused"],
      [Code.Internal, "outage"],
      [Code.Unavailable, "outage"],
      [Code.ResourceExhausted, "outage"],
    ] as const)
      it(`means ${kind} by ${Code[code]}`, async () => {
        server.answers.push(new ConnectError("no", code));
        await assert.rejects(client.listJoined(signal), trouble(kind, /listing agents/));
      });
  });

  describe("over the network", () => {
    const serve = async (id: string) => {
      const spiffeId = parseSpiffeId(id);
      const own = createSettableSource(asSvid(spiffeId, await issueLeaf(ca, spiffeId), ca));
      const peers: string[] = [];
      const limits = { closeGraceMs: 100 };
      const tls = stack.use(
        createTlsServer({ source: own, clock: systemClock, onRefused: () => {}, limits }),
      );
      tls.server.on("request", (request, response) => {
        const peer = tls.peerOf(request.stream.session);
        peers.push(peer.ok ? peer.id : peer.reason);
        server.handler(request, response);
      });
      const { port } = await tls.listen({ host: "127.0.0.1", port: 0 });
      const address = { kind: "tcp", host: "127.0.0.1", port } as const;
      const client = stack.use(
        createAgentsClient({
          address,
          trustDomain: "example.org",
          source,
          clock: systemClock,
          callMs: 50_000,
        }),
      );
      return { client, peers };
    };

    it("is the server of our trust domain, which sees our SVID", async () => {
      const { client, peers } = await serve("spiffe://example.org/spire/server");
      join("t");
      assert.equal((await client.listJoined(signal)).length, 1);
      assert.deepEqual(peers, [ourId]);
    });

    it("is nobody else", async () => {
      const { client, peers } = await serve("spiffe://example.org/ci/acme/widgets/build");
      await assert.rejects(
        client.createJoinToken("ci.x.1", 600, signal),
        trouble("outage", /the peer is spiffe:\/\/example.org\/ci\/acme.*expected is .*\/spire\/server/),
      );
      assert.deepEqual([server.tokens.size, peers], [0, []]);
    });

    it("says what an operator has to do when it does not let us", async () => {
      const { client } = await serve("spiffe://example.org/spire/server");
      server.answers.push(new ConnectError("authorization denied for method", Code.PermissionDenied));
      await assert.rejects(
        client.listJoined(signal),
        trouble("denied", /does not let spiffe:\/\/example\.org\/controller do this.*admin_ids/),
      );
    });
  });
});
