import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "mocha";
import { systemClock } from "../../../controller/platform/clock.ts";
import {
  connectNats,
  NatsDisconnectedError,
  type NatsLink,
  type NatsSettings,
} from "../../../controller/platform/nats-connection.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createRecordingLogger, type RecordingLogger } from "../../fakes/recording-logger.ts";
import { soon } from "../../support/jetstream.ts";
import { type NatsUnderTest, useNats } from "../../support/nats.ts";
import { createTestCa, issueLeaf, type TestCa } from "../../support/test-pki.ts";

describe("the connection to NATS", () => {
  const nats = useNats();
  let link: NatsLink | undefined;
  afterEach(async () => {
    await link?.close();
    link = undefined;
    await nats.start();
    nats.resume();
  });

  const settings = (log: RecordingLogger, overrides: Partial<NatsSettings> = {}): NatsSettings => ({
    url: nats.url,
    user: nats.user,
    password: nats.password,
    clock: systemClock,
    log,
    retryMs: 20,
    ...overrides,
  });
  const echo = (on: NatsLink) => on.exchange(() => on.nats.request("$JS.API.INFO"), soon());

  it("waits for a server that is not there yet, saying so once and then now and again", async () => {
    await nats.stop();
    const log = createRecordingLogger();
    const clock = createFakeClock();
    const connecting = connectNats(settings(log, { clock, retryMs: 10_000 }), soon());
    const said = () => log.lines.map(({ message }) => message);
    const waiting = "nats is not reachable, waiting for it";
    for (const times of [1, 1, 1, 2, 2]) {
      // It has tried.
      await clock.waiting();
      assert.deepEqual(said(), Array<string>(times).fill(waiting));
      await clock.step(10_000);
    }
    await clock.waiting();
    await nats.start();
    await clock.step(10_000);
    link = await connecting;
    assert.equal(link.connected(), true);
    await echo(link);
    assert.deepEqual(said(), [waiting, waiting, "nats connected"]);
  });

  it("stops waiting when the signal is aborted", async () => {
    await nats.stop();
    const log = createRecordingLogger();
    const stop = new AbortController();
    const connecting = connectNats(settings(log), stop.signal);
    await log.line("nats is not reachable, waiting for it");
    stop.abort(new Error("enough"));
    await assert.rejects(connecting, /^Error: enough$/);
  });

  it("waits for the right password, and writes neither into the log", async () => {
    const log = createRecordingLogger();
    const stop = new AbortController();
    const url = nats.url.replace("nats://", "nats://somebody:hunter2@");
    const connecting = connectNats(settings(log, { url, password: "hunter3" }), stop.signal);
    const { fields } = await log.line("nats is not reachable, waiting for it");
    assert.match(String(fields["error"]), /authorization violation/i);
    assert.equal(fields["server"], new URL(nats.url).host);
    stop.abort();
    await assert.rejects(connecting);
    assert.doesNotMatch(log.text(), /hunter|somebody/);
  });

  it("comes back after a crash of the server, and says both", async () => {
    const log = createRecordingLogger();
    link = await connectNats(settings(log), soon());
    await nats.kill();
    await log.line("nats connection lost, reconnecting");
    assert.equal(link.connected(), false);
    await nats.start();
    await log.line("nats connection is back");
    assert.equal(link.connected(), true);
    await echo(link);
  });

  it("reminds of a server that stays away", async () => {
    const log = createRecordingLogger();
    const clock = createFakeClock();
    link = await connectNats(settings(log, { clock }), soon());
    await nats.kill();
    for (const seconds of [30, 60]) {
      await clock.waiting();
      await clock.step(30_000);
      const { fields } = log.lines.at(-1) ?? assert.fail("it says nothing");
      assert.equal(log.lines.at(-1)?.message, "nats is still away, reconnecting");
      assert.equal(fields["seconds"], seconds);
    }
  });

  it("refuses a request at once while there is no connection", async () => {
    const log = createRecordingLogger();
    link = await connectNats(settings(log), soon());
    await nats.kill();
    await log.line("nats connection lost, reconnecting");
    await assert.rejects(
      link.exchange(() => assert.fail("it was asked"), soon()),
      NatsDisconnectedError,
    );
  });

  it("ends a request when the connection goes, long before the request's own deadline", async () => {
    const log = createRecordingLogger();
    link = await connectNats(settings(log), soon());
    const { nats: client } = link;
    await nats.pause();
    const asked = link.exchange(() => client.request("$JS.API.INFO", "", { timeout: 60_000 }), soon());
    const outcome = assert.rejects(asked, NatsDisconnectedError);
    await nats.kill();
    await outcome;
    await client.close();
  });

  it("ends a request when the signal is aborted", async () => {
    link = await connectNats(settings(createRecordingLogger()), soon());
    const stop = new AbortController();
    const asked = link.exchange(() => new Promise<never>(() => undefined), stop.signal);
    stop.abort(new Error("enough"));
    await assert.rejects(asked, /^Error: enough$/);
  });

  it("sends what is buffered before it closes", async () => {
    const log = createRecordingLogger();
    link = await connectNats(settings(log), soon());
    const leaving = await connectNats(settings(log), soon());
    const subscription = link.nats.subscribe("goodbye", { max: 1 });
    await link.nats.flush();
    leaving.nats.publish("goodbye", "bye");
    await leaving.close();
    for await (const message of subscription) assert.equal(message.string(), "bye");
    assert.equal(subscription.getProcessed(), 1);
    assert.equal(leaving.connected(), false);
  });

  it("closes within two seconds while the server does not answer", async () => {
    const log = createRecordingLogger();
    const clock = createFakeClock();
    const closing = await connectNats(settings(log, { clock }), soon());
    await nats.pause();
    const closed = closing.close();
    await clock.waiting();
    await clock.step(2_000);
    await closed;
    nats.resume();
    assert.doesNotMatch(log.text(), /closed for good/);
  });
});

describe("the connection to NATS by TLS", () => {
  let folder = "";
  let ca: TestCa;
  let nats: NatsUnderTest;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "nats-tls-"));
    ca = await createTestCa();
    const leaf = await issueLeaf(ca, "spiffe://example.org/nats", { dnsNames: ["localhost"] });
    const other = await createTestCa();
    for (const [name, text] of Object.entries({
      "ca.pem": ca.pem,
      "other.pem": other.pem,
      "cert.pem": leaf.chainPem,
      "key.pem": leaf.keyPem,
    })) {
      await writeFile(join(folder, name), text);
    }
  });
  after(() => rm(folder, { recursive: true, force: true }));
  nats = useNats({
    get extraConfiguration() {
      return `tls { cert_file: "${folder}/cert.pem", key_file: "${folder}/key.pem" }`;
    },
  });

  const attempt = (caFile: string, log: RecordingLogger, signal: AbortSignal) =>
    connectNats(
      {
        url: nats.url.replace("127.0.0.1", "localhost"),
        user: nats.user,
        password: nats.password,
        caFile: join(folder, caFile),
        clock: systemClock,
        log,
        retryMs: 50,
      },
      signal,
    );

  it("trusts the given CA", async () => {
    const link = await attempt("ca.pem", createRecordingLogger(), soon());
    await link.nats.flush();
    await link.close();
  });

  it("trusts no other one", async () => {
    const log = createRecordingLogger();
    const stop = new AbortController();
    const connecting = attempt("other.pem", log, stop.signal);
    const { fields } = await log.line("nats is not reachable, waiting for it");
    assert.match(String(fields["error"]), /certificate|signature/i);
    stop.abort();
    await assert.rejects(connecting);
  });

  it("waits for a CA file that is not there yet", async () => {
    const log = createRecordingLogger();
    const connecting = attempt("late.pem", log, soon());
    await log.line("nats is not reachable, waiting for it");
    await writeFile(join(folder, "late.pem"), ca.pem);
    const link = await connecting;
    await link.close();
  });
});
