import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import net from "node:net";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { after, afterEach, before, beforeEach, describe, it } from "mocha";
import { parseSpiffeId, type SpiffeId, type TrustDomain } from "../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { verifyLeaf } from "../../controller/spiffe/leaf.ts";
import { fetchJwtSvid } from "../../controller/spiffe/jwt-svid.ts";
import { createWorkloadClient, type WorkloadClient } from "../../controller/spiffe/workload-client.ts";
import { isFinal } from "../../controller/spiffe/workload-retry.ts";
import {
  openX509Source,
  SvidUnavailableError,
  type X509Source,
} from "../../controller/spiffe/x509-source.ts";
import type { X509Svid } from "../../controller/spiffe/x509-svid.ts";
import { SpiffeWorkloadAPI } from "../../proto/gen/spiffe/workload_pb.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";

/** A real Workload API, for processes of our own uid. */
export type WorkloadApiUnderTest = AsyncDisposable & {
  readonly trustDomain: TrustDomain;
  /** Where the workload of that name asks; the socket need not be there yet. */
  socket(name: string): string;
  /** Gives the workload of that name this identity; resolves when it was asked for, before it arrives. */
  register(name: string, id: SpiffeId): Promise<void>;
  unregister(name: string): Promise<void>;
  /** Ends it at once; nothing answers any more when this resolves. */
  kill(): Promise<void>;
  /** Starts it again with what it knew. */
  start(): Promise<void>;
};

const readyTimeoutMs = 50_000;
/** Long enough for a first answer, of which the error tells. */
const hastyMs = 5_000;
const { signal } = new AbortController();

/** What our client and source expect of any Workload API, with SVIDs that live so briefly that they are renewed at once. */
export function describeWorkloadApi(
  title: string,
  startMs: number,
  make: () => Promise<WorkloadApiUnderTest>,
): void {
  describe(title, () => {
    let api: WorkloadApiUnderTest;
    let resources: AsyncDisposableStack;
    let log: RecordingLogger;
    let name: string;
    let id: SpiffeId;
    let count = 0;
    before("start the Workload API", async function () {
      this.timeout(startMs);
      api = await make();
    });
    after(() => api[Symbol.asyncDispose]());
    beforeEach(() => {
      resources = new AsyncDisposableStack();
      log = createRecordingLogger();
      name = `job-${++count}`;
      id = parseSpiffeId(`spiffe://${api.trustDomain}/ci/owner/repo/${name}`);
    });
    afterEach(async () => {
      await resources.disposeAsync();
      await api.unregister(name);
    });

    const client = (): WorkloadClient =>
      resources.use(createWorkloadClient({ kind: "unix", path: api.socket(name) }));
    const options = (timeoutMs = readyTimeoutMs) => ({
      client: client(),
      expectedId: id,
      clock: systemClock,
      random: Math.random,
      log,
      readyTimeoutMs: timeoutMs,
    });
    const open = async (): Promise<X509Source> => resources.use(await openX509Source(options(), signal));
    const nextUpdate = (source: X509Source) =>
      new Promise<X509Svid>((resolve) => {
        const stop = source.onUpdate((svid) => {
          stop();
          resolve(svid);
        });
      });
    const jwt = (audience: string) =>
      fetchJwtSvid({ client: client(), audience, expectedId: id, timeoutMs: 30_000 }, signal);
    /** Asks until the entry has arrived. */
    const jwtSoon = async (audience: string) => {
      await open();
      return await jwt(audience);
    };

    it("gives a good X.509-SVID, whose chain leads to the bundle", async () => {
      await api.register(name, id);
      const svid = (await open()).current();
      const leaf = new X509Certificate(svid.certificatePem);
      assert.deepEqual(verifyLeaf(leaf, api.trustDomain, Date.now()), {
        ok: true,
        id,
        notAfter: svid.notAfter,
      });
      const cas = svid.bundlePem.map((pem) => new X509Certificate(pem));
      assert.ok(cas.some((ca) => leaf.checkIssued(ca) && leaf.verify(ca.publicKey)));
    });

    it("is waited for while it does not know the workload yet", async () => {
      const opening = open();
      await log.line("no new x509-svid");
      await api.register(name, id);
      assert.equal((await opening).current().id, id);
    });

    it("does not know the workload in time: the error tells the ID, the endpoint and why", async () => {
      await assert.rejects(openX509Source(options(hastyMs), signal), (error) => {
        assert.ok(error instanceof SvidUnavailableError);
        assert.match(error.message, new RegExp(`no X.509-SVID for ${id} from unix://.*none came within 5 s`));
        assert.match(error.message, /last problem: .*(permission_denied|ENOENT|other SVIDs only)/);
        return true;
      });
    });

    it("renews the SVID in time, with another key", async () => {
      await api.register(name, id);
      const source = await open();
      const first = source.current();
      const second = await nextUpdate(source);
      assert.notEqual(second.keyPem, first.keyPem);
      // In whole seconds, of which SPIRE may use several SVIDs up here.
      assert.ok(second.notAfter >= first.notAfter);
      assert.deepEqual(source.current(), second);
    });

    it("takes the identity back: the last SVID serves until it expires, then there is none", async () => {
      await api.register(name, id);
      const source = await open();
      await api.unregister(name);
      await log.line("no new x509-svid");
      // SPIRE may have renewed it once more on the way.
      let last = source.current();
      assert.equal(last.id, id);
      const renewed = source.onUpdate((svid) => (last = svid));
      while (last.notAfter >= Date.now()) await systemClock.sleep(last.notAfter - Date.now() + 10, signal);
      renewed();
      assert.throws(() => source.current(), /it expired at .*last problem: .*(permission_denied|ENOENT)/);
    });

    it("gives it back: the source that had lost its SVID gets a new one", async () => {
      await api.register(name, id);
      const source = await open();
      await api.unregister(name);
      await log.line("no new x509-svid");
      const update = nextUpdate(source);
      await api.register(name, id);
      assert.equal((await update).id, id);
    });

    it("is killed and started again: the source goes on with the same client", async () => {
      await api.register(name, id);
      const source = await open();
      await api.kill();
      await log.line("no new x509-svid");
      assert.equal(source.current().id, id);
      const update = nextUpdate(source);
      await api.start();
      assert.equal((await update).id, id);
    });

    it("gives a JWT-SVID for one audience", async () => {
      await api.register(name, id);
      const svid = await jwtSoon("registry.example.org");
      const [, claims = ""] = svid.token.split(".");
      const { sub, aud } = JSON.parse(Buffer.from(claims, "base64url").toString()) as Record<string, unknown>;
      assert.deepEqual([svid.id, sub, [aud].flat()], [id, id, ["registry.example.org"]]);
      assert.ok(svid.expiresAt > Date.now());
    });

    it("gives no JWT-SVID of another identity", async () => {
      await api.register(name, id);
      await jwtSoon("a");
      const asking = fetchJwtSvid(
        { client: client(), audience: "a", expectedId: parseSpiffeId(`${id}-other`), timeoutMs: 30_000 },
        signal,
      );
      await assert.rejects(asking, (error) => {
        assert.ok(error instanceof ConnectError && !isFinal(error), String(error));
        assert.equal(error.code, Code.PermissionDenied);
        return true;
      });
    });

    it("refuses for ever a call without the security header", async () => {
      await api.register(name, id);
      await open();
      const socket = api.socket(name);
      const baseUrl = "http://localhost";
      const sessions = new Http2SessionManager(baseUrl, {}, { createConnection: () => net.connect(socket) });
      resources.defer(() => sessions.abort());
      const bare = createClient(
        SpiffeWorkloadAPI,
        createGrpcTransport({ baseUrl, sessionManager: sessions }),
      );
      await assert.rejects(bare.fetchJWTSVID({ audience: ["a"], spiffeId: id }), (error) => {
        assert.ok(isFinal(error), String(error));
        assert.match(String(error), /security header missing/);
        return true;
      });
    });
  });
}
