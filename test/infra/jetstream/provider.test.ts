import assert from "node:assert/strict";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, describe, it } from "mocha";
import { AckPolicy, connect, DeliverPolicy, type JetStreamManager, type NatsConnection } from "nats";
import { startNats } from "../../../scripts/peers/start-nats.ts";
import { type ProviderClient, startProvider } from "../../support/infra/provider-client.ts";
import { useNats } from "../../support/nats.ts";

const secretMark = { "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270" };
const unknown = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

describe("jetstream provider", () => {
  const nats = useNats();
  let provider: ProviderClient;
  let connection: NatsConnection;
  let server: JetStreamManager;
  let names = 0;
  let name = "";

  before(async () => {
    provider = await startProvider();
    await provider.configure({ servers: nats.url, user: nats.user, password: nats.password });
    connection = await connect({ servers: nats.url, user: nats.user, pass: nats.password });
    server = await connection.jetstreamManager();
  });
  after(async () => {
    await provider[Symbol.asyncDispose]();
    await connection.close();
  });
  beforeEach(() => {
    name = `S${++names}`;
  });

  const stream = (overrides = {}) => ({ name, subjects: [`${name}.*`], ...overrides });
  const checked = async (kind: string, news: object, olds: object = {}) => {
    const { inputs, failures } = await provider.check(kind, olds as never, news as never);
    assert.deepEqual(failures, []);
    return inputs as never;
  };
  const made = async (kind: string, news: object) => {
    const inputs = await checked(kind, news);
    return { inputs, ...(await provider.create(kind, inputs)) };
  };
  const fill = async (count: number) => {
    for (let i = 0; i < count; i++) await connection.jetstream().publish(`${name}.a`, "message");
  };

  it("B-100 makes a stream as it was asked for, and finds it unchanged afterwards", async () => {
    const { id, inputs, properties } = await made(
      "Stream",
      stream({ retention: "workqueue", discard: "new", maxAgeSeconds: 90, duplicateWindowSeconds: 60 }),
    );
    assert.equal(id, name);
    assert.deepEqual(properties, inputs);
    const { config } = await server.streams.info(name);
    assert.deepEqual(
      [config.retention, config.discard, config.storage, config.max_age, config.duplicate_window],
      ["workqueue", "new", "file", 90e9, 60e9],
    );
    const read = await provider.read("Stream", id, inputs);
    assert.deepEqual(read.inputs, inputs);
  });

  it("touches no server in a preview, also for what is not known yet", async () => {
    const inputs = await checked("Stream", stream({ maxAgeSeconds: unknown }));
    const { id } = await provider.create("Stream", inputs, true);
    assert.equal(id, "");
    assert.deepEqual(await provider.read("Stream", name), { id: "", inputs: undefined });
  });

  it("updates in place what the server can change, and leaves what it does not know of", async () => {
    const { inputs } = await made("Stream", stream());
    await server.streams.update(name, { metadata: { team: "ci" } });
    const news = await checked("Stream", stream({ description: "jobs", maxMessagesPerSubject: -1 }), inputs);
    assert.deepEqual(await provider.diff("Stream", inputs, news), { description: "UPDATE" });
    await provider.update("Stream", name, inputs, news);
    const { config } = await server.streams.info(name);
    assert.equal(config.description, "jobs");
    assert.equal(config.metadata?.["team"], "ci");
  });

  for (const [property, from, to] of [
    ["retention", "workqueue", "limits"],
    ["storage", "file", "memory"],
    ["name", undefined, "OTHER"],
    ["maxAgeSeconds", 0, 60],
    ["maxMessages", 10, 5],
    ["subjects", ["a.*", "b.>"], ["a.>", "b.*.c"]],
  ] as const) {
    it(`refuses a change of ${property} that would lose messages, and makes it if that is allowed`, async () => {
      const old = stream(from === undefined ? {} : { [property]: from });
      const news = { ...old, [property]: to };
      const inputs = await checked("Stream", old);
      const { failures } = await provider.check("Stream", inputs, news);
      assert.equal(failures.length, 1);
      assert.match(failures[0] ?? "", new RegExp(`^${property}: .*messages would be lost.*allowDataLoss`));
      const allowed = await checked("Stream", { ...news, allowDataLoss: true }, inputs);
      const replaced = ["maxAgeSeconds", "maxMessages", "subjects"].includes(property)
        ? "UPDATE"
        : "UPDATE_REPLACE";
      assert.deepEqual(await provider.diff("Stream", inputs, allowed), {
        allowDataLoss: "UPDATE",
        [property]: replaced,
      });
    });
  }

  it("takes further subjects, and wider ones", async () => {
    const inputs = await checked("Stream", stream({ subjects: [`${name}.a`, `${name}.b.*`] }));
    for (const subjects of [[`${name}.*`, `${name}.b.>`], [`${name}.>`], [`${name}.*`, `${name}.*.*`]])
      assert.deepEqual((await provider.check("Stream", inputs, stream({ subjects }))).failures, []);
    for (const subjects of [[`${name}.*`], [`${name}.b.>`, `${name}.c`], [`${name}.*`, `${name}.b.c`]])
      assert.match(
        (await provider.check("Stream", inputs, stream({ subjects }))).failures.join(),
        /^subjects: what is stored of S\d+\.[ab].* no consumer/,
      );
  });

  it("changes between limits and interest in place, as the server does", async () => {
    const { inputs } = await made("Stream", stream({ retention: "limits" }));
    const news = await checked("Stream", stream({ retention: "interest" }), inputs);
    assert.deepEqual(await provider.diff("Stream", inputs, news), { retention: "UPDATE" });
    await provider.update("Stream", name, inputs, news);
    assert.equal((await server.streams.info(name)).config.retention, "interest");
  });

  it("deletes a stream only without messages, unless their loss is allowed", async () => {
    const { inputs } = await made("Stream", stream());
    await fill(3);
    await assert.rejects(provider.delete("Stream", name, inputs), /S\d+ has 3 messages.*allowDataLoss/);
    await server.streams.info(name);
    await provider.delete("Stream", name, { ...(inputs as object), allowDataLoss: true });
    await assert.rejects(server.streams.info(name), /not found/);
    await provider.delete("Stream", name, inputs);
  });

  it("takes over what is there only if asked, and not if that would lose data, told before anything is changed", async () => {
    const wanted = async (overrides = {}) => checked("Stream", stream(overrides));
    const [plain, queue] = [await wanted(), await wanted({ adopt: true, retention: "workqueue" })];
    await server.streams.add({ name, subjects: [`${name}.*`] });
    for (const [inputs, reason] of [
      [plain, /exists already: import it/],
      [queue, /cannot be adopted as it is: retention/],
    ] as const) {
      assert.match((await provider.check("Stream", {}, inputs)).failures.join("; "), reason);
      await assert.rejects(provider.create("Stream", inputs), reason);
    }
    await provider.create("Stream", await wanted({ adopt: true, description: "taken" }));
    assert.equal((await server.streams.info(name)).config.description, "taken");
  });

  it("takes the old object for no obstacle where the engine checks a replacement as if it were new", async () => {
    await made("Stream", stream());
    const wanted = { stream: name, durable: "pod" };
    const { inputs } = await made("Consumer", wanted);
    const news = await checked("Consumer", { ...wanted, ackPolicy: "all" }, inputs);
    assert.deepEqual(await provider.diff("Consumer", inputs, news), { ackPolicy: "UPDATE_REPLACE" });
    assert.deepEqual(await checked("Consumer", { ...wanted, ackPolicy: "all" }), news);
  });

  it("tells of subjects that another stream takes before anything is changed", async () => {
    await server.streams.add({ name: `${name}_OTHER`, subjects: [`${name}.>`] });
    const { failures } = await provider.check("Stream", {}, stream());
    assert.equal(failures.length, 1);
    assert.match(failures[0] ?? "", /subject S\d+\.\* overlaps with those of stream S\d+_OTHER/);
  });

  it("checks without a server, which may be made by the same program", async () => {
    await using other = await startProvider();
    await other.configure({ servers: "127.0.0.1:1" });
    assert.deepEqual((await other.check("Stream", {}, stream())).failures, []);
  });

  it("imports what is there by its id, and says nothing of what is not", async () => {
    const wanted = await checked("Stream", stream({ description: "by hand" }));
    await server.streams.add({ name, subjects: [`${name}.*`], description: "by hand" });
    const { id, inputs } = await provider.read("Stream", name);
    assert.equal(id, name);
    assert.deepEqual(inputs, wanted);
    assert.deepEqual(await provider.read("Consumer", `${name}/none`), { id: "", inputs: undefined });
  });

  it("B-30 makes consumers, and replaces them where the server cannot change them", async () => {
    await made("Stream", stream({ retention: "workqueue" }));
    const wanted = {
      stream: name,
      durable: "pod",
      filterSubject: `${name}.pod`,
      maxAckPending: 4,
      maxDeliver: 1000,
    };
    const { id, inputs } = await made("Consumer", wanted);
    assert.equal(id, `${name}/pod`);
    const more = await checked("Consumer", { ...wanted, maxAckPending: 8 }, inputs);
    assert.deepEqual(await provider.diff("Consumer", inputs, more), { maxAckPending: "UPDATE" });
    await provider.update("Consumer", id, inputs, more);
    const { config } = await server.consumers.info(name, "pod");
    assert.deepEqual(
      [config.max_ack_pending, config.filter_subject, config.ack_policy],
      [8, `${name}.pod`, "explicit"],
    );
    assert.deepEqual((await provider.read("Consumer", id, more)).inputs, more);
    const other = await checked("Consumer", { ...wanted, ackPolicy: "all" }, more);
    assert.deepEqual(await provider.diff("Consumer", more, other), {
      ackPolicy: "UPDATE_REPLACE",
      maxAckPending: "UPDATE",
    });
    await assert.rejects(provider.create("Consumer", more), /consumer S\d+\/pod exists already/);
    await provider.delete("Consumer", id, more);
    await provider.delete("Consumer", id, more);
  });

  it("replaces a consumer with its stream, whose name the engine takes for unknown then", async () => {
    const { inputs } = await made("Stream", stream());
    const consumer = await checked("Consumer", { stream: name, durable: "pod" });
    const news = { ...(consumer as object), stream: unknown } as never;
    assert.deepEqual(await provider.diff("Consumer", consumer, news), { stream: "UPDATE_REPLACE" });
    const open = { ...(inputs as object), maxAgeSeconds: unknown } as never;
    assert.deepEqual(await provider.diff("Stream", inputs, open), { maxAgeSeconds: "UPDATE" });
  });

  it("makes consumers of all that a stream has, and replaces one whose filter goes", async () => {
    await made("Stream", stream());
    const wanted = { stream: name, durable: "all" };
    const { id, inputs } = await made("Consumer", wanted);
    const filtered = await checked("Consumer", { ...wanted, filterSubject: `${name}.a` }, inputs);
    assert.deepEqual(await provider.diff("Consumer", inputs, filtered), { filterSubject: "UPDATE" });
    await provider.update("Consumer", id, inputs, filtered);
    assert.equal((await server.consumers.info(name, "all")).config.filter_subject, `${name}.a`);
    assert.deepEqual(await provider.diff("Consumer", filtered, inputs), { filterSubject: "UPDATE_REPLACE" });
  });

  it("B-100 makes buckets that every client takes for one", async () => {
    const { inputs } = await made("KeyValue", { bucket: name, history: 2 });
    const bucket = await connection.jetstream().views.kv(name, { bindOnly: true });
    await bucket.create("key", "value");
    assert.equal((await bucket.get("key"))?.string(), "value");
    assert.deepEqual((await provider.read("KeyValue", name)).inputs, inputs);
    await assert.rejects(provider.delete("KeyValue", name, inputs), /bucket S\d+ has 1 messages/);
    const { failures } = await provider.check("KeyValue", inputs, { bucket: name, history: 1 });
    assert.match(failures[0] ?? "", /^history: /);
  });

  it("takes a bucket that holds nothing but what is worthless for empty, and tells of no drift because of it", async () => {
    const wanted = { bucket: name, worthless: ["leader"] };
    const { inputs } = await made("KeyValue", wanted);
    const bucket = await connection.jetstream().views.kv(name, { bindOnly: true });
    await bucket.put("leader", "somebody");
    await bucket.put("key", "value");
    await assert.rejects(provider.delete("KeyValue", name, inputs), /bucket S\d+ has 1 messages/);
    const read = await provider.read("KeyValue", name, inputs);
    assert.deepEqual(read.inputs, inputs);
    await connection
      .jetstreamManager()
      .then((manager) => manager.streams.purge(`KV_${name}`, { filter: `$KV.${name}.key` }));
    await provider.delete("KeyValue", name, inputs);
    assert.deepEqual((await provider.read("KeyValue", name)).id, "");
  });

  it("drops older values of a bucket's keys without being asked only where they are worthless", async () => {
    const inputs = await checked("KeyValue", { bucket: name, history: 5 });
    const shorter = { bucket: name, history: 2 };
    assert.match((await provider.check("KeyValue", inputs, shorter)).failures.join(), /^history: /);
    const wanted = { ...shorter, worthlessHistory: true };
    assert.deepEqual((await provider.check("KeyValue", inputs, wanted)).failures, []);
    const { inputs: kept } = await made("KeyValue", wanted);
    assert.deepEqual((await provider.read("KeyValue", name, kept)).inputs, kept);
  });

  it("finds what somebody has changed that no input stands for, and makes it right in place", async () => {
    const { inputs } = await made("Stream", stream({ maxMessages: 5 }));
    const ofPod = { stream: name, durable: "pod", ackWaitSeconds: 60 };
    const { inputs: pod, id } = await made("Consumer", ofPod);
    const { inputs: bucket } = await made("KeyValue", { bucket: name });
    await server.streams.update(name, { no_ack: true });
    await server.consumers.update(name, "pod", { backoff: [1e9, 2e9], headers_only: true });
    await server.streams.update(`KV_${name}`, { max_msgs: 9, allow_rollup_hdrs: false, allow_direct: false });
    for (const [kind, of, wanted, changes, sentences] of [
      ["Stream", name, inputs, {}, ["no_ack is true, not off"]],
      [
        "Consumer",
        id,
        pod,
        { ackWaitSeconds: "UPDATE" },
        ["backoff is [1000000000,2000000000], not off", "headers_only is true, not off"],
      ],
      [
        "KeyValue",
        name,
        bucket,
        {},
        ["max_msgs is 9, not -1", "allow_rollup_hdrs is off, not true", "allow_direct is off, not true"],
      ],
    ] as const) {
      const { inputs: found } = await provider.read(kind, of, wanted);
      assert.deepEqual((found as { astray?: unknown } | undefined)?.astray, sentences);
      assert.deepEqual((await provider.check(kind, found as never, wanted)).failures, []);
      assert.deepEqual(await provider.diff(kind, found as never, wanted), { ...changes, astray: "DELETE" });
      await provider.update(kind, of, found as never, wanted);
      assert.deepEqual((await provider.read(kind, of, wanted)).inputs, wanted);
    }
    // What would lose data is refused as it is elsewhere.
    const fewer = await provider.check(
      "Stream",
      { ...(inputs as object), astray: ["x"] },
      stream({ maxMessages: 2 }),
    );
    assert.match(fewer.failures.join(), /^maxMessages: /);
    // An import makes a program of what it reads.
    await server.streams.update(name, { no_ack: true });
    assert.doesNotMatch(JSON.stringify(await provider.read("Stream", name)), /astray/);
  });

  it("tells of every mistake by the property's name", async () => {
    const { failures } = await provider.check(
      "Stream",
      {},
      {
        name: "a.b",
        subjects: ["a..b"],
        retention: "sometimes",
        replicas: 0,
        maxAge: 5,
        maxMessages: 0,
      },
    );
    assert.deepEqual(
      new Set(failures.map((failure) => failure.split(":")[0])),
      new Set(["maxAge", "maxMessages", "name", "replicas", "retention", "subjects"]),
    );
    assert.deepEqual((await provider.check("Consumer", {}, {})).failures, [
      "stream: it is required",
      "durable: it is required",
    ]);
  });

  it("keeps what came in secret secret, in inputs, outputs and what it reads", async () => {
    const secret = { ...secretMark, value: "planted-secret" };
    const inputs = await checked("Stream", stream({ description: secret }));
    assert.deepEqual((inputs as { description: unknown }).description, secret);
    const { properties } = await provider.create("Stream", inputs);
    assert.deepEqual((properties as { description: unknown }).description, secret);
    const read = await provider.read("Stream", name, properties as never);
    assert.deepEqual((read.inputs as { description: unknown }).description, secret);
  });

  it("says which objects of others it cannot manage, and why, and leaves them as they are", async () => {
    await server.streams.add({ name, subjects: [`${name}.*`] });
    await server.streams.add({ name: `${name}M`, mirror: { name } });
    const mirror = { name: `${name}M`, subjects: ["elsewhere.*"], adopt: true };
    const refused = new RegExp(`^Error: stream ${name}M is none that this provider can manage: subjects: `);
    await assert.rejects(provider.read("Stream", `${name}M`), refused);
    await assert.rejects(provider.check("Stream", {}, mirror), refused);
    await assert.rejects(provider.create("Stream", mirror), refused);
    assert.equal((await server.streams.info(`${name}M`)).config.mirror?.name, name);
    await server.consumers.add(name, {
      durable_name: "late",
      ack_policy: AckPolicy.Explicit,
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: 7,
    });
    await assert.rejects(
      provider.read("Consumer", `${name}/late`),
      /^Error: consumer S\d+\/late is none that this provider can manage: deliverPolicy: /,
    );
  });

  it("says what is wrong with the connection, and never the password", async () => {
    await using other = await startProvider();
    await assert.rejects(other.read("Stream", name), /not told where the server is: set servers/);
    await other.configure({ servers: nats.url, user: nats.user, password: "planted-wrong-password" });
    await assert.rejects(other.read("Stream", name), (error: Error) => {
      assert.match(error.message, /no connection to .*Authorization/i);
      assert.doesNotMatch(error.message, /planted/);
      return true;
    });
    await other.configure({ servers: "127.0.0.1:1" });
    await assert.rejects(other.read("Stream", name), /no connection to 127\.0\.0\.1:1: /);
  });

  it("takes no address with a password in it, and does not show it", async () => {
    await using other = await startProvider();
    const servers = nats.url.replace("://", "://ci:planted@");
    await other.configure({ servers });
    await assert.rejects(other.read("Stream", name), (error: Error) => {
      assert.match(error.message, /servers: user and password do not belong into it/);
      assert.doesNotMatch(error.message, /planted/);
      return true;
    });
  });

  it("dials nobody as long as the address or the password is not known", async () => {
    await using other = await startProvider();
    await other.configure({ servers: nats.url, user: nats.user, password: unknown });
    await assert.rejects(other.read("Stream", name), /is not known yet/);
  });
});

describe("jetstream provider, when its server goes away and comes back", () => {
  it("connects anew, whether it was there before or not", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "nats-"));
    const signal = AbortSignal.timeout(60_000);
    await using provider = await startProvider();
    const [user, password] = ["ci", "a-password-for-a-test"];
    const start = async (port?: number) => {
      const options = { folder: folder.path, user, password, ...(port === undefined ? {} : { port }) };
      return await startNats(options, signal);
    };
    const first = await start();
    const { port, url: servers } = first;
    await first.stop();
    await provider.configure({ servers, user, password });
    const look = () => provider.read("Stream", "NONE");
    await assert.rejects(look(), /no connection/);
    for (let times = 0; times < 2; times++) {
      await using server = await start(port);
      assert.equal((await look()).id, "");
      await server.stop();
      await assert.rejects(look(), /no connection/);
    }
  });
});
