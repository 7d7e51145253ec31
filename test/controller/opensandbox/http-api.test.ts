import assert from "node:assert/strict";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, it } from "mocha";
import { defaultHttpApiTimes } from "../../../controller/opensandbox/ask.ts";
import { OpenSandboxError } from "../../../controller/opensandbox/opensandbox-api.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { describeError } from "../../../controller/platform/errors.ts";
import { eventually } from "../../support/eventually.ts";
import {
  aNewSandbox,
  type ServedOpenSandbox,
  startServedOpenSandbox,
} from "../../support/served-opensandbox.ts";
import { createTestCa, issueLeaf } from "../../support/test-pki.ts";

const none = new AbortController().signal;
const owner = { "ci.ddupan.top/owner": "us" };

async function fails(work: Promise<unknown>): Promise<OpenSandboxError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof OpenSandboxError, `it did not fail as it should: ${String(error)}`);
  return error;
}

describe("the API of OpenSandbox over HTTP", () => {
  let served: ServedOpenSandbox;
  beforeEach(async () => {
    served = await startServedOpenSandbox();
    served.server.pools.open("ci-vm", 2);
  });
  afterEach(() => served[Symbol.asyncDispose]());

  const create = () => served.api.create(aNewSandbox(), none);
  const get = () => served.api.get("a", none);
  const ended = () =>
    eventually("the server has no request any more", () => served.server.served.open === 0, 30_000, 5);

  it("B-60 asks for a place in the pool with entrypoint, environment, metadata and a time to live", async () => {
    await served.api.create(
      aNewSandbox({ environment: { A: "1" }, metadata: { ...owner, job: "x" }, timeoutSeconds: 90 }),
      none,
    );
    assert.deepEqual(JSON.parse(served.server.calls[0]?.text ?? ""), {
      extensions: { poolRef: "ci-vm" },
      entrypoint: ["gitea-opensandbox-runner"],
      env: { A: "1" },
      metadata: { ...owner, job: "x" },
      timeout: 90,
    });
  });

  it("sends each request with an id of its own, which its error has", async () => {
    await get();
    served.server.failNext("get", { status: 500, body: "Internal Server Error" });
    const error = await fails(get());
    assert.deepEqual(
      served.server.calls.map(({ requestId }) => requestId),
      ["request-1", "request-2"],
    );
    assert.equal(error.message, "GET /sandboxes/a: refused (500, request request-2)");
  });

  it("asks for the key each time, so that it may be replaced", async () => {
    let key = "first-key";
    await using other = await startServedOpenSandbox(
      { key: () => Promise.resolve(key) },
      { key: "second-key" },
    );
    assert.equal((await fails(other.api.get("a", none))).trouble, "unauthorized");
    key = "second-key";
    assert.equal(await other.api.get("a", none), undefined);
  });

  it("sends nothing without a key, and says what is wrong with it", async () => {
    const keys = [
      () => Promise.reject(new Error("ENOENT: no such file, open '/run/key'")),
      () => Promise.resolve(""),
      () => Promise.resolve("two\nlines"),
    ];
    for (const key of keys) {
      await using other = await startServedOpenSandbox({ key });
      const error = await fails(other.api.create(aNewSandbox(), none));
      assert.equal(error.trouble, "unauthorized");
      assert.match(
        describeError(error),
        /^POST \/sandboxes: the key (cannot be read: ENOENT.*|is empty, or no key)$/,
      );
      assert.equal(other.server.served.connections, 0);
    }
  });

  const createTroubles = [
    { status: 404, code: "KUBERNETES::POOL_NOT_FOUND", trouble: "no_pool" },
    { status: 404, code: "SOMETHING_NOT_FOUND", trouble: "refused" },
    { status: 404, code: undefined, trouble: "outage" },
    { status: 405, code: undefined, trouble: "outage" },
    { status: 429, code: "KUBERNETES::POOL_CAPACITY_EXHAUSTED", trouble: "no_capacity" },
    { status: 429, code: undefined, trouble: "no_capacity" },
    { status: 504, code: "KUBERNETES::POD_READY_TIMEOUT", trouble: "no_capacity" },
    { status: 504, code: undefined, trouble: "outage" },
    { status: 500, code: "KUBERNETES::POD_FAILED", trouble: "vm_failed" },
    { status: 500, code: "KUBERNETES::API_ERROR", trouble: "outage" },
    { status: 500, code: "KUBERNETES::POOL_API_ERROR", trouble: "outage" },
    { status: 401, code: "INVALID_API_KEY", trouble: "unauthorized" },
    { status: 401, code: undefined, trouble: "unauthorized" },
    { status: 400, code: "SANDBOX::INVALID_PARAMETER", trouble: "refused" },
    { status: 403, code: undefined, trouble: "refused" },
    { status: 413, code: undefined, trouble: "refused" },
    { status: 422, code: undefined, trouble: "refused" },
    { status: 408, code: undefined, trouble: "outage" },
    { status: 501, code: undefined, trouble: "outage" },
    { status: 502, code: undefined, trouble: "outage" },
    { status: 503, code: "SANDBOX_LIST_UNAVAILABLE", trouble: "outage" },
    { status: 307, code: undefined, trouble: "outage" },
  ] as const;
  for (const { status, code, trouble } of createTroubles)
    it(`takes ${status} ${code ?? "without a code"} for ${trouble} of a create`, async () => {
      const body = code === undefined ? "<html>" : { code, message: "words" };
      served.server.failNext("create", { status, body });
      const error = await fails(create());
      assert.equal(error.trouble, trouble);
      const facts = `(${status}${code === undefined ? "" : ` ${code}`}, request request-1)`;
      assert.equal(error.message, `POST /sandboxes: ${code === undefined ? "refused" : "words"} ${facts}`);
    });

  for (const [status, code] of [
    [404, "KUBERNETES::POOL_NOT_FOUND"],
    [429, "X"],
    [504, "KUBERNETES::POD_READY_TIMEOUT"],
    [500, "KUBERNETES::POD_FAILED"],
  ] as const)
    it(`knows no trouble of a create in the ${status} of another call`, async () => {
      served.server.failNext("get", { status, body: { code, message: "" } });
      const { trouble } = await fails(get());
      assert.equal(trouble, status === 404 ? "refused" : "outage");
    });

  for (const seconds of ["7", "0", "99999"])
    it(`gives how long the server wants to be left alone (${seconds})`, async () => {
      served.server.failNext("create", { status: 429, headers: { "Retry-After": seconds } });
      assert.equal((await fails(create())).retryAfterMs, Number(seconds) * 1000);
    });

  it("takes no other Retry-After than seconds", async () => {
    for (const value of ["soon", "-1", "1.5", "999999", "Fri, 31 Dec 1999 23:59:59 GMT"]) {
      served.server.failNext("create", { status: 503, headers: { "Retry-After": value } });
      assert.equal((await fails(create())).retryAfterMs, undefined);
    }
  });

  it("does not take a proxy's page for a sandbox that is gone", async () => {
    const { id } = await create();
    for (const body of [undefined, "<html>404</html>", { detail: "Not Found" }]) {
      served.server.failNext((call) => call.verb !== "list", { status: 404, body }, 4);
      assert.equal((await fails(served.api.get(id, none))).trouble, "outage");
      assert.equal((await fails(served.api.delete(id, none))).trouble, "outage");
      assert.equal((await fails(served.api.addMetadata(id, { a: "b" }, none))).trouble, "outage");
      assert.equal((await fails(served.api.pool("ci-vm", none))).trouble, "outage");
    }
  });

  it("takes no page with a status of success for an answer", async () => {
    const { id } = await create();
    for (const body of [undefined, "<html>in maintenance</html>", {}, [], null, "{"]) {
      served.server.failNext(() => true, { status: 200, body }, 6);
      const troubles = [
        create(),
        served.api.get(id, none),
        served.api.list(owner, none),
        served.api.addMetadata(id, { a: "b" }, none),
        served.api.delete(id, none),
        served.api.pool("ci-vm", none),
      ];
      for (const error of await Promise.all(troubles.map((work) => fails(work)))) {
        assert.equal(error.trouble, "outage");
        assert.ok(!error.message.includes("html"), error.message);
      }
    }
    assert.equal((await served.api.get(id, none))?.state, "running");
  });

  it("asks again whether it is gone before it says so of a deletion", async () => {
    const { id } = await create();
    const notFound = {
      status: 404,
      body: { code: "KUBERNETES::SANDBOX_NOT_FOUND", message: "dns: not found" },
    };
    served.server.failNext("delete", notFound);
    assert.equal((await fails(served.api.delete(id, none))).trouble, "outage");
    assert.equal(served.server.count("get"), 1);
    served.server.failNext("delete", notFound);
    served.server.failNext("get", { status: 502 });
    assert.equal((await fails(served.api.delete(id, none))).trouble, "outage");
    assert.equal(await served.api.delete(id, none), true);
    assert.equal(await served.api.delete(id, none), false);
  });

  it("takes metadata for added only where the answer has it", async () => {
    const { id } = await create();
    const added = await served.api.addMetadata(id, { first: "1" }, none);
    assert.equal(added?.metadata["first"], "1");
    served.server.failNext("patch", {
      status: 200,
      body: { id, status: { state: "Running" }, metadata: {} },
    });
    const error = await fails(served.api.addMetadata(id, { second: "2" }, none));
    assert.equal(error.trouble, "outage");
    assert.match(error.message, /does not have all of it/);
  });

  it("takes a connection that is cut, before or after the work, for an outage", async () => {
    served.server.failNext("create", "hang up");
    assert.equal((await fails(create())).trouble, "outage");
    assert.equal(served.server.sandboxes().length, 0);
    served.server.failNext("create", "lost answer");
    const error = await fails(create());
    assert.equal(error.trouble, "outage");
    assert.match(error.message, /^POST \/sandboxes: .+ \(request request-2\)$/);
    assert.equal(served.server.sandboxes().length, 1);
  });

  it("takes a server that is not there for an outage, and finds it when it is", async () => {
    served.server.setAway(true);
    assert.equal((await fails(get())).trouble, "outage");
    served.server.setAway(false);
    assert.equal(await get(), undefined);
  });

  it("waits three minutes for a create, and twenty seconds for anything else", async () => {
    served.server.failNext(() => true, "no answer", 2);
    const [creating, getting] = [fails(create()), fails(get())];
    await eventually("both are there", () => served.server.calls.length === 2, 30_000, 5);
    await served.clock.step(defaultHttpApiTimes.callMs);
    assert.match((await getting).message, /no answer within 20 s \(request request-2\)$/);
    await served.clock.step(defaultHttpApiTimes.createMs - defaultHttpApiTimes.callMs);
    const error = await creating;
    assert.deepEqual([error.trouble, defaultHttpApiTimes.createMs], ["outage", 180_000]);
    await ended();
  });

  it("waits a minute for all pages of a list", async () => {
    const { met } = served.server.failNext("list", "no answer");
    const times = { ...defaultHttpApiTimes, callMs: 120_000 };
    await using other = await startServedOpenSandbox({ url: served.server.url, clock: served.clock, times });
    other.server.key = served.server.key;
    const listing = fails(other.api.list(owner, none));
    await met;
    await served.clock.step(60_000);
    assert.match((await listing).message, /^GET \/sandboxes: no answer within 60 s/);
  });

  it("waits for the key no longer than for an answer", async () => {
    const asked = Promise.withResolvers<void>();
    const key = (signal: AbortSignal) =>
      new Promise<string>((_, reject) => {
        signal.addEventListener("abort", () => reject(new Error("given up")), { once: true });
        asked.resolve();
      });
    await using other = await startServedOpenSandbox({ key });
    const failed = fails(other.api.get("a", none));
    await asked.promise;
    await other.clock.step(defaultHttpApiTimes.callMs);
    assert.match((await failed).message, /no answer within 20 s/);
  });

  it("ends a request whose signal is aborted, and rejects with its reason", async () => {
    const { met } = served.server.failNext("list", "no answer");
    const stop = new AbortController();
    const listing = served.api.list(owner, stop.signal);
    await met;
    stop.abort(new Error("stopped"));
    await assert.rejects(listing, /^Error: stopped$/);
    await ended();
    await assert.rejects(served.api.create(aNewSandbox(), stop.signal), /^Error: stopped$/);
    assert.equal(served.server.count("create"), 0);
  });

  it("takes no answer that is longer than it may be", async () => {
    await using small = await startServedOpenSandbox({ answerBytes: 1_000 });
    small.server.put({ id: "a", labels: { long: "x".repeat(2_000) } });
    const error = await fails(small.api.get("a", none));
    assert.match(error.message, /longer than 1000 bytes/);
    small.server.failNext("create", { status: 400, body: "x".repeat(2_000) });
    assert.equal((await fails(small.api.create(aNewSandbox(), none))).trouble, "refused");
  });

  it("uses one connection for one call after another, and another for each create", async () => {
    for (let calls = 0; calls < 3; calls++) await get();
    assert.equal(served.server.served.connections, 1);
    await create();
    await get();
    assert.equal(served.server.served.connections, 2);
    served.api.close();
    await eventually("all are closed", () => served.server.served.connected === 0, 30_000, 5);
  });

  it("closes a connection that it has not used for a while, and opens another", async () => {
    const times = { ...defaultHttpApiTimes, idleConnectionMs: 50 };
    await using other = await startServedOpenSandbox({ times });
    await other.api.get("a", none);
    await eventually("it is closed", () => other.server.served.connected === 0, 30_000, 5);
    await other.api.get("a", none);
    assert.equal(other.server.served.connections, 2);
    assert.ok(defaultHttpApiTimes.idleConnectionMs < 5_000);
  });

  it("closes: what runs is an outage, and what comes later too", async () => {
    const { met } = served.server.failNext("get", "no answer");
    const failed = fails(get());
    await met;
    served.api.close();
    for (const error of [await failed, await fails(get()), await fails(served.api.list(owner, none))]) {
      assert.equal(error.trouble, "outage");
      assert.match(error.message, /the client is closed/);
    }
    await eventually("all are closed", () => served.server.served.connected === 0, 30_000, 5);
    assert.deepEqual(served.clock.pending(), []);
  });

  it("asks for no list without a filter, and for nothing by a name that could lead elsewhere", async () => {
    const troubles = [
      served.api.list({}, none),
      served.api.list({ "": "x" }, none),
      served.api.get("", none),
      served.api.get("..", none),
      served.api.delete("a/b", none),
      served.api.addMetadata("a?b", {}, none),
      served.api.pool("../sandboxes", none),
    ];
    for (const { trouble } of await Promise.all(troubles.map((work) => fails(work))))
      assert.equal(trouble, "refused");
    assert.equal(served.server.served.connections, 0);
  });

  it("lists what was asked for, though the server shows more", async () => {
    served.server.put({ id: "mine", labels: owner });
    const others = {
      id: "theirs",
      status: { state: "Running" },
      metadata: { "ci.ddupan.top/owner": "them" },
    };
    const mine = { ...others, id: "mine", metadata: owner };
    const body = { items: [others, mine], pagination: { hasNextPage: false } };
    served.server.failNext("list", { status: 200, body });
    assert.deepEqual(
      (await served.api.list(owner, none)).map(({ id }) => id),
      ["mine"],
    );
  });

  for (const value of ["a b&c=d", "100%", "ä+ö", "", "x/y"])
    it(`encodes a filter so that ${JSON.stringify(value)} is found by it`, async () => {
      served.server.put({ id: "one", labels: { ...owner, "x.y/z": value } });
      served.server.put({ id: "two", labels: { ...owner, "x.y/z": `${value}.` } });
      const found = await served.api.list({ ...owner, "x.y/z": value }, none);
      assert.deepEqual(
        found.map(({ id }) => id),
        ["one"],
      );
    });

  it("reads all pages of a thousand, also while some go", async () => {
    for (let number = 0; number < 1_000; number++) served.server.put({ labels: owner });
    const held = served.server.holdNext(({ query }) => query.get("page") === "2", "before");
    const listing = served.api.list(owner, none);
    await held.arrived;
    const first = served.server.sandboxes().toSorted((a, b) => (a.id < b.id ? -1 : 1))[0];
    served.server.remove(first?.id ?? "");
    held.release();
    const found = await listing;
    assert.deepEqual(
      found.map(({ id }) => id).toSorted(),
      served.server
        .sandboxes()
        .map(({ id }) => id)
        .toSorted(),
    );
    assert.equal(served.server.count("list"), 15);
    assert.ok(served.server.calls.every(({ query }) => query.get("pageSize") === "200"));
  });
});

describe("where the API of OpenSandbox is", () => {
  for (const path of ["", "/", "/v1", "/v1/", "/behind/a/proxy", "/behind/a/proxy/v1"])
    it(`adds /v1 to ${path === "" ? "a bare host" : path} unless it is there`, async () => {
      const asked = Promise.withResolvers<string | undefined>();
      await using other = await startPlayed((url, response) => {
        asked.resolve(url);
        response.writeHead(404).end();
      }, path);
      await fails(other.served.api.get("a", none));
      const base = path.replace(/\/$/, "").replace(/\/v1$/, "");
      assert.equal(await asked.promise, `${base}/v1/sandboxes/a`);
    });

  it("judges a refusal by its status when its body is cut, and cannot judge a success", async () => {
    for (const [status, trouble] of [
      [429, "no_capacity"],
      [500, "outage"],
      [202, "outage"],
    ] as const) {
      await using other = await startPlayed((_, response) => {
        response.writeHead(status, { "Content-Length": "1000", "Retry-After": "3" });
        response.write('{"code":');
        response.socket?.end();
      });
      assert.equal((await fails(other.served.api.create(aNewSandbox(), none))).trouble, trouble);
    }
  });

  it("counts the time of the body too", async () => {
    const begun = Promise.withResolvers<void>();
    await using other = await startPlayed((_, response) => {
      response.writeHead(200, { "Content-Length": "1000" });
      response.write("{");
      begun.resolve();
    });
    const failed = fails(other.served.api.get("a", none));
    await begun.promise;
    await other.served.clock.step(defaultHttpApiTimes.callMs);
    assert.match((await failed).message, /no answer within 20 s/);
  });

  it("goes over https, and verifies the certificate whatever the environment says", async () => {
    const ca = await createTestCa();
    const { chainPem, keyPem } = await issueLeaf(ca, "", { uris: [], addresses: ["127.0.0.1"] });
    const tls = { cert: chainPem, key: keyPem };
    await using known = await startServedOpenSandbox({ ca: ca.pem }, { tls });
    known.server.pools.open("ci-vm", 1);
    assert.equal((await known.api.create(aNewSandbox(), none)).state, "running");
    assert.equal((await known.api.list(owner, none)).length, 1);
    const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    try {
      await using stranger = await startServedOpenSandbox({}, { tls });
      const refused = [stranger.api.get("a", none), stranger.api.create(aNewSandbox(), none)];
      for (const error of await Promise.all(refused.map((work) => fails(work))))
        assert.match(describeError(error), /certificate/);
      assert.equal(stranger.server.calls.length, 0);
    } finally {
      if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
      else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
    }
  });

  it("says that nobody listens", async () => {
    const gone = await startPlayed(() => undefined);
    await gone[Symbol.asyncDispose]();
    const url = new URL(`http://127.0.0.1:${gone.port}`);
    await using other = await startServedOpenSandbox({ url, clock: systemClock });
    assert.match((await fails(other.api.get("a", none))).message, /ECONNREFUSED.*\(request request-1\)/);
  });
});

/** A server that answers as a test wants, byte for byte. */
async function startPlayed(
  answer: (url: string | undefined, response: ServerResponse) => void,
  path = "",
): Promise<AsyncDisposable & { readonly port: number; readonly served: ServedOpenSandbox }> {
  const server: Server = createServer((request, response) => {
    request.resume().once("end", () => answer(request.url, response));
  });
  const listening = Promise.withResolvers<void>();
  server.listen({ host: "127.0.0.1", port: 0 }, listening.resolve);
  await listening.promise;
  const { port } = server.address() as AddressInfo;
  const served = await startServedOpenSandbox({ url: new URL(`http://127.0.0.1:${port}${path}`) });
  return {
    port,
    served,
    [Symbol.asyncDispose]: async () => {
      await served[Symbol.asyncDispose]();
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
