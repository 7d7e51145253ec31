import assert from "node:assert/strict";
import { mkdtemp, rename, rm } from "node:fs/promises";
import http2 from "node:http2";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Code } from "@connectrpc/connect";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { createLogger } from "../../../controller/platform/logger.ts";
import { createWorkloadClient } from "../../../controller/spiffe/workload-client.ts";
import {
  openX509Source,
  SvidUnavailableError,
  type X509Source,
} from "../../../controller/spiffe/x509-source.ts";
import type { X509Svid } from "../../../controller/spiffe/x509-svid.ts";
import { createFakeClock, type FakeClock, settle } from "../../fakes/fake-clock.ts";
import {
  createFakeWorkloadApi,
  type FakeStream,
  type FakeWorkloadApi,
} from "../../fakes/fake-workload-api.ts";
import {
  createTestCa,
  issueLeaf,
  svidMessage,
  type TestCa,
  type X509SvidInit,
} from "../../support/test-pki.ts";

const id = parseSpiffeId("spiffe://example.org/ci/owner/repo/build");
const otherId = "spiffe://example.org/ns/gitea-actions/sa/gitea-task-executor";
const readyTimeoutMs = 120_000;
const garbage = { spiffeId: id, x509Svid: Buffer.from("garbage") };

describe("X.509 source", () => {
  let ca: TestCa;
  let folder: string;
  let api: FakeWorkloadApi;
  let clock: FakeClock;
  let resources: AsyncDisposableStack;
  let lines: { level: string; msg: string; problem?: string }[];
  let abort: AbortController;

  before(async () => {
    ca = await createTestCa();
  });
  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    folder = await mkdtemp(path.join(tmpdir(), "x509-source-"));
    resources.defer(() => rm(folder, { recursive: true }));
    api = resources.use(createFakeWorkloadApi(path.join(folder, "api.sock")));
    clock = createFakeClock(Date.now());
    lines = [];
    abort = new AbortController();
  });
  afterEach(() => resources.disposeAsync());

  const fresh = async (options = {}): Promise<X509SvidInit> =>
    svidMessage(id, await issueLeaf(ca, id, options), ca);

  /** Starts to open a source; what it opens is closed after the test. */
  function open(): Promise<X509Source> {
    const client = resources.use(createWorkloadClient(api.endpoint));
    const log = createLogger("debug", { write: (line) => lines.push(JSON.parse(line)) });
    const options = { client, expectedId: id, clock, random: () => 0, log, readyTimeoutMs };
    const opening = openX509Source(options, abort.signal);
    opening.then(
      (source) => resources.use(source),
      () => {},
    );
    return opening;
  }

  /** A source that has its first SVID, and the stream that it came on. */
  async function opened(first?: X509SvidInit): Promise<{ source: X509Source; stream: FakeStream }> {
    await api.start();
    const opening = open();
    const stream = await api.nextStream();
    stream.send({ svids: [first ?? (await fresh())] });
    return { source: await opening, stream };
  }

  /** Waits for the next problem that is logged. */
  async function problems(count: number): Promise<readonly (string | undefined)[]> {
    const found = () => lines.filter(({ msg }) => msg === "no new x509-svid").map(({ problem }) => problem);
    while (found().length < count) await settle();
    return found();
  }

  const nextUpdate = (source: X509Source) =>
    new Promise<X509Svid>((resolve) => {
      const stop = source.onUpdate((svid) => {
        stop();
        resolve(svid);
      });
    });

  it("opens as soon as the Workload API gives the expected ID, with the security header set", async () => {
    const { source, stream } = await opened();
    assert.equal(source.current().id, id);
    assert.equal(stream.header.get("workload.spiffe.io"), "true");
    assert.deepEqual(clock.pending(), []);
  });

  it("waits for a socket that is not there yet", async () => {
    const opening = open();
    await clock.waiting(2);
    assert.match((await problems(1))[0] ?? "", /ENOENT/);
    await api.start();
    await clock.step(500);
    (await api.nextStream()).send({ svids: [await fresh()] });
    assert.equal((await opening).current().id, id);
  });

  it("waits for an agent that left a dead socket behind", async () => {
    const socket = path.join(folder, "api.sock");
    const agent = net.createServer();
    await new Promise<void>((resolve) => agent.listen(`${socket}.live`, resolve));
    // Under another name node does not find the file that it would remove.
    await rename(`${socket}.live`, socket);
    await new Promise((resolve) => agent.close(resolve));
    const opening = open();
    assert.match((await problems(1))[0] ?? "", /ECONNREFUSED/);
    await rm(socket);
    await api.start();
    await clock.waiting(2);
    await clock.step(500);
    (await api.nextStream()).send({ svids: [await fresh()] });
    await opening;
  });

  it("asks again while it is denied, every half second to second, and tells it once", async () => {
    await api.start();
    const opening = open();
    for (let i = 0; i < 5; i++) {
      (await api.nextStream()).fail(Code.PermissionDenied, "no identity issued");
      await clock.waiting(2);
      assert.equal(clock.pending()[0], 500);
      await clock.step(500);
    }
    (await api.nextStream()).send({ svids: [await fresh()] });
    await opening;
    assert.deepEqual(await problems(1), ["[permission_denied] no identity issued"]);
  });

  it("opens the stream anew if it was attested too early and is given another ID only", async () => {
    await api.start();
    const opening = open();
    const early = await api.nextStream();
    early.send({ svids: [svidMessage(otherId, await issueLeaf(ca, otherId), ca)] });
    await early.over;
    await clock.waiting(2);
    await clock.step(500);
    (await api.nextStream()).send({ svids: [await fresh()] });
    assert.equal((await opening).current().id, id);
  });

  it("gives up at the deadline, naming the ID, the endpoint and the last problem", async () => {
    await api.start();
    const opening = open();
    (await api.nextStream()).fail(Code.PermissionDenied, "no identity issued");
    await clock.waiting(2);
    await api.kill();
    const failed = assert.rejects(opening, (error) => {
      assert.ok(error instanceof SvidUnavailableError);
      assert.match(error.message, new RegExp(`no X\\.509-SVID for ${id} from unix://${folder}/api\\.sock: `));
      assert.match(error.message, /none came within 120 s; last problem: .*ENOENT/);
      return true;
    });
    await clock.step(500);
    await problems(2);
    await clock.step(readyTimeoutMs);
    await failed;
    assert.deepEqual(clock.pending(), []);
  });

  it("says at the deadline that a stream was silent", async () => {
    await api.start();
    const opening = open();
    const stream = await api.nextStream();
    const failed = assert.rejects(opening, /none came within 120 s; the Workload API has not answered/);
    await clock.step(readyTimeoutMs);
    await failed;
    await stream.over;
  });

  it("does not wait if the Workload API calls our request wrong", async () => {
    await api.start();
    const opening = open();
    (await api.nextStream()).fail(Code.InvalidArgument, "security header missing from request");
    await assert.rejects(opening, /security header missing/);
    assert.deepEqual(clock.pending(), []);
  });

  it("stops waiting when it is told to", async () => {
    await api.start();
    const opening = open();
    const stream = await api.nextStream();
    const reason = new Error("shutting down");
    abort.abort(reason);
    await assert.rejects(opening, reason);
    await stream.over;
    assert.deepEqual(clock.pending(), []);
  });

  it("publishes a rotated SVID and leaves the one before as it was", async () => {
    const { source, stream } = await opened();
    const old = source.current();
    const text = JSON.stringify(old);
    const updated = nextUpdate(source);
    stream.send({ svids: [await fresh()] });
    const next = await updated;
    assert.equal(source.current(), next);
    assert.notEqual(next.certificatePem, old.certificatePem);
    assert.equal(JSON.stringify(old), text);
  });

  it("publishes a new bundle of an unchanged SVID, and nothing when nothing changed", async () => {
    const first = await fresh();
    const { source, stream } = await opened(first);
    const updated = nextUpdate(source);
    const both = Buffer.concat([ca.der, (await createTestCa()).der]);
    stream.send({ svids: [first] });
    stream.send({ svids: [{ ...first, bundle: both }] });
    assert.equal((await updated).bundlePem.length, 2);
  });

  it("tells nobody who unsubscribed, and everybody else though one listener throws", async () => {
    const { source, stream } = await opened();
    const told: string[] = [];
    source.onUpdate(() => told.push("gone"))();
    source.onUpdate(() => {
      throw new Error("broken listener");
    });
    const updated = nextUpdate(source);
    stream.send({ svids: [await fresh()] });
    await updated;
    assert.deepEqual(told, []);
    assert.ok(lines.some(({ level, msg }) => level === "error" && msg.includes("listener")));
  });

  it("never lets a bad message replace a good SVID, and reads on", async () => {
    const { source, stream } = await opened();
    const old = source.current();
    stream.send({ svids: [garbage] });
    await problems(1);
    assert.equal(source.current(), old);
    const updated = nextUpdate(source);
    stream.send({ svids: [await fresh()] });
    await updated;
  });

  describe("an SVID that is valid only in half a minute", () => {
    const early = (seconds = 30) => fresh({ notBefore: clock.now() + seconds * 1_000 });

    it("is waited for, on the stream that it came on", async () => {
      await api.start();
      const opening = open();
      const stream = await api.nextStream();
      stream.send({ svids: [await early()] });
      assert.match((await problems(1)).join(), /valid only from .* on/);
      await clock.step(29_000);
      assert.equal((await problems(1)).length, 1, "it is told once");
      await clock.step(2_000);
      const { notBefore } = (await opening).current();
      assert.ok(notBefore <= clock.now() && notBefore > clock.now() - 2_500);
    });

    it("takes the place of a good one when it is valid, without a further message", async () => {
      const { source, stream } = await opened();
      const old = source.current();
      stream.send({ svids: [await early()] });
      await problems(1);
      await clock.step(29_000);
      assert.equal(source.current(), old);
      const updated = nextUpdate(source);
      await clock.step(2_000);
      assert.equal(await updated, source.current());
    });

    it("is forgotten when a better one comes meanwhile", async () => {
      const { source, stream } = await opened();
      stream.send({ svids: [await early()] });
      await problems(1);
      const updated = nextUpdate(source);
      const better = await fresh();
      stream.send({ svids: [better] });
      await updated;
      const told: X509Svid[] = [];
      source.onUpdate((svid) => told.push(svid));
      await clock.step(60_000);
      assert.deepEqual(told, []);
    });

    it("is asked for again when its stream ends meanwhile", async () => {
      const { source, stream } = await opened();
      stream.send({ svids: [await early()] });
      await problems(1);
      stream.fail(Code.Unavailable, "the agent restarts");
      await problems(2);
      await clock.step(1_000);
      const updated = nextUpdate(source);
      (await api.nextStream()).send({ svids: [await fresh()] });
      await updated;
    });

    it("does not keep a source from giving up at the deadline", async () => {
      await api.start();
      const opening = open();
      (await api.nextStream()).send({ svids: [await early(600)] });
      await problems(1);
      const late = assert.rejects(opening, /none came within 120 s; last problem: .*valid only from/);
      await clock.step(readyTimeoutMs);
      await late;
    });
  });

  it("keeps the last SVID through a denial until it expires, and recovers", async () => {
    const notAfter = Math.floor(Date.now() / 1000) * 1000 + 60_000;
    const { source, stream } = await opened(await fresh({ notAfter }));
    stream.fail(Code.PermissionDenied, "no identity issued");
    await clock.waiting();
    assert.equal(source.current().notAfter, notAfter);
    await clock.step(notAfter - clock.now());
    assert.throws(
      () => source.current(),
      (error) => {
        assert.ok(error instanceof SvidUnavailableError);
        assert.match(
          error.message,
          /it expired at .*; last problem: \[permission_denied\] no identity issued/,
        );
        return true;
      },
    );
    const updated = nextUpdate(source);
    (await api.nextStream()).send({ svids: [await fresh()] });
    await updated;
    assert.equal(source.current().id, id);
  });

  it("outlives an agent that is killed in the middle of a stream", async () => {
    const { source } = await opened();
    await api.kill();
    await clock.waiting();
    assert.equal(source.current().id, id);
    await api.start();
    await clock.step(500);
    const updated = nextUpdate(source);
    (await api.nextStream()).send({ svids: [await fresh()] });
    await updated;
  });

  it("opens the stream anew when the agent ends it in good order", async () => {
    const { source, stream } = await opened();
    stream.end();
    await clock.waiting();
    assert.deepEqual(await problems(1), ["the Workload API ended the stream"]);
    await clock.step(500);
    const updated = nextUpdate(source);
    (await api.nextStream()).send({ svids: [await fresh()] });
    await updated;
  });

  it("waits out bytes that are no message at all", async () => {
    const server = http2.createServer();
    const asked = new Promise<void>((resolve) => {
      server.on("stream", (stream) => {
        stream.respond({ ":status": 200, "content-type": "application/grpc" });
        stream.end(Uint8Array.of(0, 0, 0, 0, 3, 0xff, 0xff, 0xff));
        resolve();
      });
    });
    await new Promise<void>((resolve) => server.listen(path.join(folder, "api.sock"), resolve));
    const sessions = new Set<http2.ServerHttp2Session>();
    server.on("session", (session) => sessions.add(session));
    const opening = open();
    await asked;
    await problems(1);
    for (const session of sessions) session.destroy();
    await new Promise((resolve) => server.close(resolve));
    await api.start();
    await clock.waiting(2);
    await clock.step(500);
    (await api.nextStream()).send({ svids: [await fresh()] });
    await opening;
  });

  it("ends its stream when it is closed, and keeps the last SVID readable", async () => {
    const { source, stream } = await opened();
    await source.close();
    await stream.over;
    assert.equal(source.current().id, id);
    assert.deepEqual(clock.pending(), []);
  });
});
