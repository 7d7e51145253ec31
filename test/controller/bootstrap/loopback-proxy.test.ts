import assert from "node:assert/strict";
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  request as httpRequest,
  type RequestListener,
  type RequestOptions,
  type Server,
} from "node:http";
import { createServer as createSecureServer } from "node:https";
import { type AddressInfo, connect } from "node:net";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createSecureContext } from "node:tls";
import { promisify } from "node:util";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterEach, describe, it } from "mocha";
import { createLoopbackProxy } from "../../../controller/bootstrap/loopback-proxy.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { createTestCa, issueLeaf } from "../../support/test-pki.ts";

const megabyte = 1024 * 1024;

describe("the loopback proxy", () => {
  const open = new Set<Server>();
  const log = createRecordingLogger();

  afterEach(async () => {
    for (const server of open) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
    open.clear();
  });

  const listen = async (server: Server): Promise<number> => {
    open.add(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  };

  /** A Gitea and the proxy to it; tells the proxy's port. */
  const proxyTo = async (
    gitea: (...exchange: Parameters<RequestListener>) => unknown,
  ): Promise<{ port: number; host: string }> => {
    const host = `localhost:${await listen(createServer((...exchange) => void gitea(...exchange)))}`;
    const server = new URL(`http://${host}/`);
    const proxy = createLoopbackProxy({ server, secureContext: createSecureContext(), log });
    return { port: await listen(createServer(proxy)), host };
  };

  /** Sends a request and resolves with its answer's head. */
  const ask = async (
    port: number,
    options: RequestOptions = {},
    body: Readable = Readable.from([]),
  ): Promise<IncomingMessage> => {
    const request = httpRequest({ port, host: "127.0.0.1", agent: false, ...options });
    // After the answer nobody waits for it: the connection ends with the test.
    request.on("error", () => undefined);
    body.pipe(request);
    const [response] = (await once(request, "response")) as [IncomingMessage];
    return response;
  };

  it("passes method, path, headers, body, status and trailers as they are", async () => {
    const seen: IncomingMessage[] = [];
    const { port, host } = await proxyTo((request, response) => {
      seen.push(request);
      response.writeHead(418, "Short and stout", {
        "set-cookie": ["a=1", "b=2"],
        location: `http://${request.headers.host ?? ""}/elsewhere`,
        trailer: "x-checksum",
      });
      request.on("end", () => response.addTrailers({ "x-checksum": "12" }));
      request.pipe(response);
    });
    const answer = await ask(
      port,
      {
        method: "PATCH",
        path: "/api/v1/a%2Fb?q=1&q=2",
        headers: { authorization: "token abc", "x-two": ["1", "2"], "transfer-encoding": "chunked" },
      },
      Readable.from(["hello ", "world"]),
    );
    assert.equal(await text(answer), "hello world");
    assert.deepEqual([answer.statusCode, answer.statusMessage], [418, "Short and stout"]);
    assert.deepEqual(answer.headers["set-cookie"], ["a=1", "b=2"]);
    assert.equal(answer.headers.location, `http://${host}/elsewhere`);
    assert.deepEqual({ ...answer.trailers }, { "x-checksum": "12" });
    const [request] = seen;
    assert.deepEqual([request?.method, request?.url], ["PATCH", "/api/v1/a%2Fb?q=1&q=2"]);
    assert.equal(request?.headers.authorization, "token abc");
    assert.equal(request.headers.host, host);
    assert.deepEqual(request.headersDistinct["x-two"], ["1", "2"]);
  });

  it("keeps headers of the connection to itself, those that it names too", async () => {
    const seen: IncomingMessage[] = [];
    const { port } = await proxyTo((request, response) => {
      seen.push(request);
      response.writeHead(200, { connection: "close, x-hop", "x-hop": "1", "x-kept": "1" }).end();
    });
    const headers = {
      connection: "keep-alive, x-mine",
      "x-mine": "1",
      "proxy-authorization": "secret",
      te: "trailers",
      "x-kept": "1",
    };
    const answer = await ask(port, { headers });
    await text(answer);
    assert.deepEqual([answer.headers["x-hop"], answer.headers["x-kept"]], [undefined, "1"]);
    const names = Object.keys(seen[0]?.headers ?? {});
    assert.deepEqual(names.toSorted(), ["connection", "host", "x-kept"]);
  });

  for (const [method, headers] of [
    ["GET", {}],
    ["HEAD", {}],
    ["POST", { "content-length": "0" }],
    ["DELETE", { "transfer-encoding": "chunked" }],
    ["PUT", { "content-length": "4" }],
  ] as const)
    it(`passes ${method} with ${JSON.stringify(headers)}`, async () => {
      const { port } = await proxyTo(async (request, response) => {
        const body = await text(request);
        response.writeHead(200, { "x-body": body, "content-length": "2" }).end("ok");
      });
      const body = "content-length" in headers && headers["content-length"] === "0" ? [] : ["body"];
      const withBody = method !== "GET" && method !== "HEAD" && body.length > 0;
      const answer = await ask(port, { method, headers }, Readable.from(withBody ? body : []));
      assert.equal(answer.headers["x-body"], withBody ? "body" : "");
      assert.equal(await text(answer), method === "HEAD" ? "" : "ok");
    });

  it("passes compressed bodies as they are", async () => {
    const packed = gzipSync("a".repeat(10_000));
    const { port } = await proxyTo((_, response) => {
      response.writeHead(200, { "content-encoding": "gzip" }).end(packed);
    });
    const answer = await ask(port, { headers: { "accept-encoding": "gzip" } });
    assert.equal(answer.headers["content-encoding"], "gzip");
    assert.equal(gunzipSync(await bytes(answer)).length, 10_000);
  });

  it("streams 100 MB down, at the pace of the reader", async () => {
    let produced = 0;
    const { port } = await proxyTo((_, response) => {
      void pipeline(
        megabytes(100, () => produced++),
        response,
      ).catch(() => undefined);
    });
    const answer = await ask(port);
    await standsStill(() => produced);
    assert.ok(produced < 40, `${produced} MB were sent to a reader that reads nothing`);
    assert.equal(await size(answer), 100 * megabyte);
  });

  it("streams 100 MB up, at the pace of the reader", async () => {
    let produced = 0;
    const arrived = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const { port } = await proxyTo(async (request, response) => {
      arrived.resolve();
      await go.promise;
      response.end(String(await size(request)));
    });
    const asking = ask(
      port,
      { method: "POST" },
      megabytes(100, () => produced++),
    );
    await arrived.promise;
    await standsStill(() => produced);
    assert.ok(produced < 40, `${produced} MB were taken for a reader that reads nothing`);
    go.resolve();
    assert.equal(await text(await asking), String(100 * megabyte));
  });

  for (const answered of [false, true])
    it(`ends the request to Gitea when the job hangs up ${answered ? "during" : "before"} the answer`, async () => {
      const begun = Promise.withResolvers<IncomingMessage>();
      const { port } = await proxyTo((request, response) => {
        if (answered) response.writeHead(200).write("some");
        begun.resolve(request);
      });
      const client = connect(port, "127.0.0.1");
      client.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
      const request = await begun.promise;
      const closed = once(request.socket, "close");
      client.destroy();
      await closed;
    });

  it("lets an answer that breaks off look broken off", async () => {
    const { port } = await proxyTo((_, response) => {
      response.writeHead(200, { "content-length": "100" }).write("some", () => response.destroy());
    });
    const answer = await ask(port);
    await assert.rejects(text(answer), { code: "ECONNRESET" });
  });

  it("passes an answer that comes before the request is through", async () => {
    const { port } = await proxyTo((_, response) => {
      // Not ended: Node would reset the connection, where other servers wait for what still comes.
      response.writeHead(413, { "content-length": "9" }).write("too large");
    });
    const answer = await ask(
      port,
      { method: "POST" },
      megabytes(30, () => undefined),
    );
    assert.deepEqual([answer.statusCode, await text(answer)], [413, "too large"]);
  });

  it("answers 502 when Gitea is down, even in the middle of an upload", async () => {
    const gone = createServer();
    const server = new URL(`http://127.0.0.1:${await listen(gone)}/`);
    await new Promise((resolve) => gone.close(resolve));
    const proxy = createLoopbackProxy({ server, secureContext: createSecureContext(), log });
    const port = await listen(createServer(proxy));
    const answer = await ask(
      port,
      { method: "POST" },
      megabytes(5, () => undefined),
    );
    assert.deepEqual([answer.statusCode, await text(answer)], [502, "Gitea does not answer\n"]);
  });

  it("answers 502 even to a job that reads only when it has sent all", async () => {
    const proxy = createLoopbackProxy({ server: undefined, secureContext: createSecureContext(), log });
    const client = connect(await listen(createServer(proxy)), "127.0.0.1");
    const length = 30 * megabyte;
    client.write(`POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: ${length}\r\n\r\n`);
    const sent = promisify(client.write.bind(client) as (chunk: Buffer, done: () => void) => void);
    await sent(Buffer.alloc(length));
    assert.match(await text(client), /^HTTP\/1.1 502 /);
  });

  it("answers 502 when Gitea hangs up without an answer", async () => {
    const { port } = await proxyTo((request) => request.socket.destroy());
    assert.equal((await ask(port)).statusCode, 502);
  });

  for (const [what, answer] of [
    ["a status that HTTP does not know", "HTTP/1.1 099 x\r\ncontent-length: 2\r\n\r\nok"],
    ["a control character in its first line", "HTTP/1.1 200 \x01\r\ncontent-length: 2\r\n\r\nok"],
    ["another protocol", "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"],
  ] as const)
    it(`answers 502 to an answer of ${what}`, async () => {
      const { port } = await proxyTo((request) => request.socket.end(answer));
      assert.equal((await ask(port)).statusCode, 502);
    });

  it("passes a message that promises trailers which its form cannot hold, without the promise", async () => {
    const promised: unknown[] = [];
    const { port } = await proxyTo((request) => {
      promised.push(request.headers["trailer"]);
      request.socket.end("HTTP/1.1 200 OK\r\ntrailer: x\r\ncontent-length: 2\r\n\r\nok");
    });
    const client = connect(port, "127.0.0.1");
    client.write("GET / HTTP/1.1\r\nhost: x\r\ntrailer: x\r\nconnection: close\r\n\r\n");
    const answer = await text(client);
    assert.match(answer, /^HTTP\/1.1 200 OK\r\n[^]*\r\n\r\nok$/);
    assert.doesNotMatch(answer, /^trailer:/im);
    assert.deepEqual(promised, [undefined]);
  });

  it("answers 502 when the task names no server", async () => {
    const proxy = createLoopbackProxy({ server: undefined, secureContext: createSecureContext(), log });
    assert.equal((await ask(await listen(createServer(proxy)))).statusCode, 502);
  });

  it("blocks the runner protocol", async () => {
    const { port } = await proxyTo((_, response) => response.end("reached"));
    for (const path of [
      "/api/actions/runner.v1.RunnerService/FetchTask",
      "/api/actions/ping.v1.PingService/Ping",
    ])
      assert.equal((await ask(port, { method: "POST", path })).statusCode, 403);
  });

  it("speaks TLS with a Gitea whose authority is trusted, and with no other", async () => {
    const ca = await createTestCa();
    const leaf = await issueLeaf(ca, "spiffe://example.org/gitea", { dnsNames: ["localhost"] });
    const gitea = createSecureServer({ cert: leaf.chainPem, key: leaf.keyPem }, (_, response) =>
      response.end("secure"),
    );
    const server = new URL(`https://localhost:${await listen(gitea)}/`);
    const trusting = createSecureContext({ ca: ca.pem });
    const answers = [];
    for (const secureContext of [trusting, createSecureContext({ ca: (await createTestCa()).pem })]) {
      const port = await listen(createServer(createLoopbackProxy({ server, secureContext, log })));
      const answer = await ask(port);
      answers.push([answer.statusCode, await text(answer)]);
    }
    assert.deepEqual(answers, [
      [200, "secure"],
      [502, "Gitea does not answer\n"],
    ]);
  });
});

async function bytes(source: Readable): Promise<Buffer> {
  return Buffer.concat(await source.toArray());
}

async function text(source: Readable): Promise<string> {
  return (await bytes(source)).toString();
}

async function size(source: Readable): Promise<number> {
  let sum = 0;
  const count = (chunk: Buffer) => (sum += chunk.length);
  await pipeline(
    source,
    new Writable({
      write: (chunk: Buffer, _, done) => {
        count(chunk);
        done();
      },
    }),
  );
  return sum;
}

function megabytes(count: number, produce: () => unknown): Readable {
  const chunk = Buffer.alloc(megabyte);
  let left = count;
  return new Readable({
    read() {
      if (left === 0) this.push(null);
      else {
        left--;
        produce();
        this.push(chunk);
      }
    },
  });
}

/** Resolves once a number has not moved for many turns of the event loop: all buffers are full. */
async function standsStill(value: () => number): Promise<void> {
  let last = -1;
  let quiet = 0;
  while (quiet < 2_000) {
    await new Promise((resolve) => setImmediate(resolve));
    quiet = value() === last ? quiet + 1 : 0;
    last = value();
  }
}
