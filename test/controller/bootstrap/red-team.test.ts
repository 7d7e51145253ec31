import assert from "node:assert/strict";
import { once } from "node:events";
import net, { createServer, type Socket } from "node:net";
import { createSecureContext } from "node:tls";
import { afterEach, beforeEach, describe, it } from "mocha";
import { createLoopbackProxy } from "../../../controller/bootstrap/loopback-proxy.ts";
import { startLoopbackServer } from "../../../controller/bootstrap/loopback-server.ts";
import { createRunnerService } from "../../../controller/bootstrap/runner-service.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { aTask } from "../../support/a-task.ts";
import { facadeInMemory, type FacadeInMemory } from "../../support/facade-in-memory.ts";
import { forbidden, noPaths, smuggled, spellings } from "../../support/loopback-attacks.ts";

/*
 * A job that wants more of Gitea than its loopback address gives: the runner protocol. `proxy-target.test.ts` has
 * the spellings of its path; here is what can be done to a request around the path.
 */

const hidden = `POST ${forbidden} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n`;

describe("an attack on the loopback address", () => {
  let parts: FacadeInMemory;
  let gitea: net.Server;
  /** What arrived at Gitea, each connection's bytes. */
  let arrived: string[];
  let port: number;
  let resources: AsyncDisposableStack;

  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    parts = facadeInMemory();
    arrived = [];
    const sockets = new Set<Socket>();
    gitea = createServer((socket) => {
      const index = arrived.push("") - 1;
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("data", (chunk) => {
        const first = arrived[index] === "";
        arrived[index] += chunk.toString("latin1");
        if (first) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nreached");
      });
    });
    gitea.listen(0, "127.0.0.1");
    await once(gitea, "listening");
    const address = gitea.address();
    assert.ok(address !== null && typeof address === "object");
    const proxy = createLoopbackProxy({
      server: new URL(`http://127.0.0.1:${address.port}/`),
      secureContext: createSecureContext(),
      log: createRecordingLogger(),
    });
    const relay = parts.newRelay();
    const service = createRunnerService({
      task: aTask(),
      relay,
      name: "gitea-task-42",
      capabilities: "",
    });
    const loopback = resources.use(await startLoopbackServer({ service, proxy }));
    port = Number(new URL(loopback.origin).port);
    resources.defer(() => {
      for (const socket of sockets) socket.destroy();
      gitea.close();
    });
  });
  afterEach(() => resources.disposeAsync());

  /** Writes bytes as they are, and resolves to what has come back when nothing moves any more. */
  async function send(text: string): Promise<string> {
    const socket = net.connect(port, "127.0.0.1");
    let answer = "";
    socket.on("error", () => undefined);
    socket.on("data", (chunk: Buffer) => (answer += chunk.toString("latin1")));
    socket.write(Buffer.from(text, "latin1"));
    let seen = "";
    for (let quiet = 0; quiet < 1_000 && !socket.destroyed; quiet++) {
      await new Promise((resolve) => setImmediate(resolve));
      const now = [answer, ...arrived].join("");
      if (now !== seen) quiet = 0;
      seen = now;
    }
    socket.destroy();
    return answer;
  }

  /** The requests that a strict server finds in the bytes of a connection. */
  function requestsIn(bytes: string): readonly string[] {
    const found: string[] = [];
    for (let rest = bytes; rest !== "";) {
      const end = rest.indexOf("\r\n\r\n");
      if (end === -1) return [...found, rest];
      const head = rest.slice(0, end);
      found.push(head.split("\r\n", 1)[0] ?? "");
      rest = rest.slice(end + 4);
      if (/^transfer-encoding: *chunked/im.test(head)) {
        for (;;) {
          const [line = ""] = rest.split("\r\n", 1);
          const size = Number.parseInt(line, 16);
          if (!Number.isInteger(size)) break;
          rest = rest.slice(line.length + 2 + size + 2);
          if (size === 0) break;
        }
      } else rest = rest.slice(Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0));
    }
    return found;
  }

  const nothingForbidden = () => {
    const requests = arrived.flatMap(requestsIn);
    for (const request of requests) assert.ok(!request.includes(forbidden), request);
    assert.deepEqual(parts.facade.calls, []);
    return requests;
  };

  const get = (target: string) => `GET ${target} HTTP/1.1\r\nhost: x\r\n\r\n`;
  for (const target of spellings)
    it(`blocks ${target}`, async () => {
      assert.match(await send(get(target)), /^HTTP\/1.1 403 /);
      assert.deepEqual(nothingForbidden(), []);
    });

  for (const target of noPaths)
    it(`refuses ${target} as no path`, async () => {
      assert.match(await send(get(target)), /^HTTP\/1.1 400 /);
      assert.deepEqual(nothingForbidden(), []);
    });

  it("passes what only looks like it, for a server decodes once", async () => {
    for (const target of [
      "/api/v1/x?next=/api/actions",
      "/%2561pi/actions/x",
      "/api;x/actions/x",
      "/apis/actions/x",
    ])
      assert.match(await send(get(target)), /reached/, target);
    assert.equal(arrived.length, 4);
  });

  it("opens no tunnel: CONNECT gets no answer", async () => {
    for (const target of ["127.0.0.1:80", forbidden, "/"])
      assert.doesNotMatch(await send(`CONNECT ${target} HTTP/1.1\r\nhost: x\r\n\r\n${hidden}`), / 2\d\d /);
    assert.deepEqual(nothingForbidden(), []);
  });

  for (const protocol of ["websocket", "h2c", "runner"])
    it(`switches to no other protocol: an upgrade to ${protocol} is an ordinary request`, async () => {
      const answer = await send(
        `GET /x HTTP/1.1\r\nhost: x\r\nconnection: upgrade, http2-settings\r\nupgrade: ${protocol}\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n`,
      );
      assert.match(answer, /^HTTP\/1.1 200 /);
      assert.doesNotMatch(arrived.join(""), /^(upgrade|http2-settings):/im);
      assert.equal(nothingForbidden().length, 1);
    });

  for (const method of ["GET", "POST", "DELETE"])
    for (const [what, rest] of smuggled(hidden))
      it(`hides no request behind a ${method} with ${what}`, async () => {
        await send(`${method} /acme/widgets HTTP/1.1\r\nhost: x\r\n${rest}`);
        assert.ok(nothingForbidden().length <= 1);
      });

  it("hides no request in a path, a method or a header's name", async () => {
    for (const line of [
      `GET /x HTTP/1.1\r\nhost: x\r\n\r\n${hidden}`,
      `GET /x%0d%0a%0d%0a${encodeURIComponent(hidden)} HTTP/1.1\r\nhost: x\r\n\r\n`,
      `GET /x\rPOST HTTP/1.1\r\nhost: x\r\n\r\n`,
      `GET\t${forbidden}\tHTTP/1.1\r\nhost: x\r\n\r\n`,
      `GET /x HTTP/1.1 POST ${forbidden} HTTP/1.1\r\nhost: x\r\n\r\n`,
      `GET /x HTTP/0.9\r\n\r\n${hidden}`,
    ])
      await send(line);
    for (const request of nothingForbidden()) assert.match(request, /^GET \/x\S* HTTP\/1\.1$/);
    assert.ok(arrived.length >= 2);
  });

  it("names its own host to nobody: Gitea hears how it is called itself", async () => {
    await send("GET /x HTTP/1.1\r\nhost: evil.example\r\nconnection: host\r\n\r\n");
    assert.match(arrived[0] ?? "", /^host: 127\.0\.0\.1:\d+\r$/im);
    assert.doesNotMatch(arrived[0] ?? "", /evil/);
  });
});
