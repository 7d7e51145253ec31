import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { createHttpsApi, defaultHttpsApiTimes } from "../../../controller/kubernetes/https-api.ts";
import { ApiOutage, ApiRefusal, type WatchEvent } from "../../../controller/kubernetes/kubernetes-api.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { describeError } from "../../../controller/platform/errors.ts";
import { createFakeClock, type FakeClock } from "../../fakes/fake-clock.ts";
import type { Document } from "../../fakes/kubernetes/document.ts";
import { eventually } from "../../support/eventually.ts";
import { plantedToken, type ServedCluster, startServedCluster } from "../../support/served-cluster.ts";
import { createTestCa } from "../../support/test-pki.ts";

const none = new AbortController().signal;
const pods = "/api/v1/namespaces/gitea-actions/pods";
const pod: Document = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "a" },
  spec: { containers: [{ name: "executor", image: "image" }] },
};

describe("the API over HTTPS", () => {
  let clock: FakeClock;
  let served: ServedCluster;
  beforeEach(async () => {
    clock = createFakeClock();
    served = await startServedCluster({ clock });
  });
  afterEach(() => served[Symbol.asyncDispose]());

  const get = (name = "a") => served.api.call({ method: "GET", path: `${pods}/${name}` }, none);
  const fails = async (work: Promise<unknown>) => {
    const error = await work.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof Error, "it did not fail");
    return error;
  };
  const ended = () =>
    eventually("the server has no request any more", () => served.server.open === 0, 30_000, 5);

  it("sends bodies as JSON and gives what was answered", async () => {
    const created = (await served.api.call({ method: "POST", path: pods, body: pod }, none)) as Document;
    assert.equal(created.metadata.namespace, "gitea-actions");
    assert.deepEqual(await get(), created);
    const patched = await served.api.call(
      {
        method: "PATCH",
        path: `${pods}/a`,
        body: { metadata: { labels: { über: "größe" } } },
        contentType: "application/merge-patch+json",
      },
      none,
    );
    assert.deepEqual((patched as Document).metadata.labels, { über: "größe" });
    const listed = await served.api.call(
      { method: "GET", path: pods, query: { labelSelector: "über=größe", limit: "5" } },
      none,
    );
    assert.equal((listed as { items: unknown[] }).items.length, 1);
    await served.api.call({ method: "DELETE", path: `${pods}/a`, body: { gracePeriodSeconds: 0 } }, none);
    assert.equal(served.cluster.get("Pod", "a"), undefined);
  });

  it("uses one connection for one call after another, and closes it in the end", async () => {
    served.cluster.put({ ...pod, metadata: { name: "a", namespace: "gitea-actions" } });
    for (let calls = 0; calls < 3; calls++) await get();
    assert.deepEqual([served.server.connections, served.server.connected], [1, 1]);
    served.api.close();
    await eventually("it is closed", () => served.server.connected === 0, 30_000, 5);
  });

  it("closes a connection that it has not used for a while, and opens another", async () => {
    const times = { ...defaultHttpsApiTimes, idleConnectionMs: 50 };
    await using other = await startServedCluster({ times });
    const call = () => other.api.call({ method: "GET", path: pods }, none);
    await call();
    await eventually("it is closed", () => other.server.connected === 0, 30_000, 5);
    await call();
    assert.equal(other.server.connections, 2);
  });

  it("says with the server's words why it refused", async () => {
    const error = await fails(get());
    assert.ok(error instanceof ApiRefusal);
    assert.deepEqual([error.status, error.reason, error.retryAfterMs], [404, "NotFound", undefined]);
    assert.equal(error.message, `GET ${pods}/a: pods "a" not found (404 NotFound)`);
    assert.equal((error.body as { details: { name: string } }).details.name, "a");
  });

  for (const status of [429, 503])
    it(`gives how long the server wants to be left alone (${status})`, async () => {
      served.cluster.failNext({}, { status, reason: "TooManyRequests", retryAfterSeconds: 7 });
      const error = await fails(get());
      assert.ok(error instanceof ApiRefusal);
      assert.deepEqual([error.status, error.retryAfterMs], [status, 7_000]);
    });

  it("takes every other answer for an outage, because the outcome is not known", async () => {
    const faults = [
      { status: 500, reason: "InternalError", message: "failed calling webhook" },
      { status: 502, body: "<html>bad gateway</html>" },
      { status: 504, reason: "Timeout" },
      { status: 302 },
      { status: 200, body: "no JSON" },
    ];
    for (const fault of faults) {
      served.cluster.failNext({}, fault);
      const error = await fails(get());
      assert.ok(error instanceof ApiOutage, error.message);
      assert.ok(error.message.startsWith(`GET ${pods}/a: `));
      assert.ok(!error.message.includes("html"));
    }
  });

  it("takes a refusal that is no Status by its status code", async () => {
    served.cluster.failNext({}, { status: 403, body: "<html>forbidden</html>" });
    const error = await fails(get());
    assert.ok(error instanceof ApiRefusal);
    assert.deepEqual([error.status, error.reason, error.body], [403, "", undefined]);
    assert.equal(error.message, `GET ${pods}/a: refused (403)`);
  });

  it("takes a connection that is cut, before or after the work, for an outage", async () => {
    served.cluster.failNext({ verb: "get" }, "hang up");
    assert.ok((await fails(get())) instanceof ApiOutage);
    served.cluster.failNext({ verb: "create" }, "lost answer");
    const error = await fails(served.api.call({ method: "POST", path: pods, body: pod }, none));
    assert.ok(error instanceof ApiOutage);
    assert.ok(served.cluster.get("Pod", "a") !== undefined);
  });

  it("takes a server that is not there for an outage, and finds it when it is", async () => {
    const other = await startServedCluster();
    await other[Symbol.asyncDispose]();
    const cluster = { server: new URL(other.server.url), load: () => Promise.resolve({ headers: {} }) };
    const api = createHttpsApi({ cluster, clock: systemClock });
    const error = await fails(api.call({ method: "GET", path: pods }, none));
    assert.ok(error instanceof ApiOutage);
    assert.match(describeError(error), /ECONNREFUSED/);
    api.close();
  });

  it("gives up a call that has no answer in time, and ends its request", async () => {
    const { met } = served.cluster.failNext({ verb: "get" }, "no answer");
    const failed = fails(get());
    await met;
    await clock.step(defaultHttpsApiTimes.callMs);
    const error = await failed;
    assert.ok(error instanceof ApiOutage);
    assert.equal(error.message, `GET ${pods}/a: no answer within 20 s`);
    await ended();
  });

  it("ends a request whose signal is aborted, and rejects with its reason", async () => {
    const { met } = served.cluster.failNext({ verb: "get" }, "no answer");
    const stop = new AbortController();
    const failed = fails(served.api.call({ method: "GET", path: `${pods}/a` }, stop.signal));
    await met;
    stop.abort(new Error("stopped"));
    assert.equal((await failed).message, "stopped");
    await ended();
    assert.equal(
      (await fails(served.api.call({ method: "GET", path: pods }, stop.signal))).message,
      "stopped",
    );
  });

  it("takes no answer that is longer than it may be", async () => {
    await using small = await startServedCluster({ limits: { answerBytes: 1_000, eventBytes: 1_000 } });
    small.cluster.put({
      ...pod,
      metadata: { name: "a", namespace: "gitea-actions" },
      spec: { x: "x".repeat(2_000) },
    });
    const error = await fails(small.api.call({ method: "GET", path: `${pods}/a` }, none));
    assert.ok(error instanceof ApiOutage);
    assert.match(error.message, /longer than 1000 bytes/);
    const watched = await fails(Array.fromAsync(small.api.watch(pods, {}, none)));
    assert.ok(watched instanceof ApiOutage);
    assert.match(watched.message, /an event is longer than 1000 bytes/);
  });

  it("verifies the server's certificate, whatever the environment says", async () => {
    const stranger = await createTestCa();
    const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    const credential = { headers: { Authorization: `Bearer ${plantedToken}` }, ca: stranger.pem };
    const cluster = { server: new URL(served.server.url), load: () => Promise.resolve(credential) };
    const api = createHttpsApi({ cluster, clock: systemClock });
    try {
      const error = await fails(api.call({ method: "GET", path: pods }, none));
      assert.ok(error instanceof ApiOutage);
      assert.match(describeError(error), /certificate/);
      assert.equal(served.server.requests.length, 0);
    } finally {
      api.close();
      if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
      else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
    }
  });

  it("shows its token in no error, whoever repeats it", async () => {
    const echo = `you sent Bearer ${plantedToken}`;
    const errors: Error[] = [];
    served.cluster.failNext({}, { status: 403, reason: "Forbidden", message: echo });
    errors.push(await fails(get()));
    served.cluster.failNext({}, { status: 500, reason: "InternalError", message: echo });
    errors.push(await fails(get()));
    served.cluster.failNext({}, { status: 400, body: echo });
    errors.push(await fails(get()));
    served.cluster.failNext({}, { status: 200, body: echo });
    errors.push(await fails(get()));
    served.server.tokens.clear();
    errors.push(await fails(get()));
    for (const error of errors) {
      const { body } = error as { readonly body?: unknown };
      const all = [error.message, describeError(error), error.stack, JSON.stringify(body ?? "")].join("\n");
      assert.ok(!all.includes(plantedToken), all);
    }
    assert.match(errors[0]?.message ?? "", /you sent Bearer \[redacted\]/);
  });

  it("closes: what runs is an outage, and what comes later too", async () => {
    const { met } = served.cluster.failNext({ verb: "get" }, "no answer");
    const failed = fails(get());
    const watching = fails(Array.fromAsync(served.api.watch(pods, {}, none)));
    await met;
    await eventually("the watch runs", () => served.cluster.watches.running === 1, 30_000, 5);
    served.api.close();
    for (const error of [await failed, await watching, await fails(get())]) {
      assert.ok(error instanceof ApiOutage);
      assert.match(error.message, /the client is closed/);
    }
    await eventually("all connections are closed", () => served.server.connected === 0, 30_000, 5);
  });

  describe("watching", () => {
    const watch = (query: Readonly<Record<string, string>> = {}, signal = none) =>
      served.api.watch(pods, query, signal)[Symbol.asyncIterator]();
    const running = () => eventually("the watch runs", () => served.cluster.watches.running === 1, 30_000, 5);
    const nameOf = (event: WatchEvent | undefined) => (event?.object as Document | undefined)?.metadata.name;

    it("gives events as they come, and ends when the server ends it", async () => {
      const events = watch();
      const first = events.next();
      await running();
      served.cluster.put({ ...pod, metadata: { name: "a", namespace: "gitea-actions" } });
      assert.equal(nameOf((await first).value as WatchEvent), "a");
      served.cluster.remove("Pod", "a");
      assert.equal(((await events.next()).value as WatchEvent).type, "DELETED");
      served.cluster.watches.end();
      assert.equal((await events.next()).done, true);
    });

    it("rejects with what an ERROR event says", async () => {
      const error = await fails(watch({ resourceVersion: "1" }).next());
      assert.ok(error instanceof ApiRefusal);
      assert.deepEqual([error.status, error.reason], [410, "Expired"]);
      assert.match(error.message, /^WATCH .*too old resource version/);
    });

    it("rejects with what the server answers instead", async () => {
      served.cluster.deny({ verb: "watch" });
      const error = await fails(watch().next());
      assert.ok(error instanceof ApiRefusal);
      assert.equal(error.reason, "Forbidden");
    });

    it("takes a connection that is cut for an outage", async () => {
      const failed = fails(watch().next());
      await running();
      served.cluster.watches.cut();
      assert.ok((await failed) instanceof ApiOutage);
    });

    it("takes nonsense for an outage", async () => {
      const failed = fails(watch().next());
      await running();
      served.cluster.sendLine({ type: "SURPRISE", object: {} });
      assert.ok((await failed) instanceof ApiOutage);
    });

    it("gives up a watch whose answer does not begin", async () => {
      const { met } = served.cluster.failNext({ verb: "watch" }, "no answer");
      const failed = fails(watch().next());
      await met;
      await clock.step(defaultHttpsApiTimes.callMs);
      assert.match((await failed).message, /no answer within 20 s/);
      await ended();
    });

    it("gives up a watch that the server should have ended long ago", async () => {
      const failed = fails(watch({ timeoutSeconds: "300" }).next());
      await running();
      await clock.waiting(1);
      served.cluster.watches.silence();
      await eventually("the client has its answer", () => clock.pending().includes(330_000), 30_000, 5);
      await clock.step(330_000);
      const error = await failed;
      assert.ok(error instanceof ApiOutage);
      assert.match(error.message, /has not ended within 330 s/);
      await ended();
    });

    it("ends its connection when its signal is aborted, and when nobody reads on", async () => {
      const stop = new AbortController();
      const failed = fails(watch({}, stop.signal).next());
      await running();
      stop.abort(new Error("stopped"));
      assert.equal((await failed).message, "stopped");
      await ended();
      served.cluster.put({ ...pod, metadata: { name: "a", namespace: "gitea-actions" } });
      for await (const event of served.api.watch(pods, { timeoutSeconds: "300" }, none)) {
        assert.equal(event.type, "ADDED");
        break;
      }
      await ended();
      assert.deepEqual(clock.pending(), []);
      assert.equal(served.cluster.watches.running, 0);
    });
  });
});
