import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import net, { type AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, it } from "mocha";
import { createRpcListener } from "../../../controller/platform/rpc-listener.ts";
import { RunnerService } from "../../../proto/gen/runner/v1/runner_pb.ts";

const path = "/below/runner.v1.RunnerService/Declare";
/** More than a connection takes before its peer has read any. */
const version = "x".repeat(5_000_000);

describe("a listener for calls", () => {
  let unreadable: string[];
  let unanswered: PromiseWithResolvers<unknown>;
  let resources: AsyncDisposableStack;
  beforeEach(() => {
    unreadable = [];
    unanswered = Promise.withResolvers();
    resources = new AsyncDisposableStack();
  });
  afterEach(() => resources.disposeAsync());

  const listener = () =>
    createRpcListener({
      routes: (router) => router.service(RunnerService, { declare: () => ({ runner: { version } }) }),
      requestPathPrefix: "/below",
      onUnreadable: ({ url }) => unreadable.push(url ?? ""),
      onUnanswered: unanswered.resolve,
    });
  const listen = async (server: net.Server) => {
    resources.defer(() => void server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  };
  /** An HTTP/1 connection's answer, to its end. */
  const ask = async (head: string) => {
    const socket = net.connect(await listen(http.createServer(listener())), "127.0.0.1");
    socket.end(`${head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}`);
    return (await Array.fromAsync(socket)).join("");
  };
  const session = async () => {
    const port = await listen(http2.createServer(listener()));
    const connected = http2.connect(`http://127.0.0.1:${port}`).on("error", () => undefined);
    resources.defer(() => {
      connected.destroy();
    });
    return connected;
  };

  it("answers a call below its prefix, and 404 to any other path", async () => {
    const answer = await ask(`POST ${path}?x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n`);
    assert.match(answer, /^HTTP\/1.1 200 /);
    assert.match(answer, new RegExp(version.slice(0, 30)));
    for (const other of [path.toLowerCase(), path.replace("/below", ""), "/", "*"])
      assert.match(await ask(`POST ${other} HTTP/1.1\r\nhost: [\r\nconnection: close\r\n`), / 404 /, other);
    assert.deepEqual(unreadable, []);
  });

  for (const [what, head] of [
    ["with a Host of which no URL can be made", "HTTP/1.1\r\nhost: [\r\nconnection: close\r\n"],
    ["without a Host", "HTTP/1.0\r\n"],
  ] as const)
    it(`answers 400 to an HTTP/1 request ${what}, and tells of it`, async () => {
      assert.match(await ask(`POST ${path} ${head}`), /^HTTP\/1.1 400 /);
      assert.deepEqual(unreadable, [path]);
    });

  for (const authority of ["[", "x:99999"])
    it(`answers 400 to an HTTP/2 request to ${authority}, and tells of it`, async () => {
      const stream = (await session()).request({ ":method": "POST", ":path": path, ":authority": authority });
      const [answer] = (await once(stream.end(), "response")) as [http2.IncomingHttpHeaders];
      assert.equal(answer[":status"], 400);
      assert.deepEqual(unreadable, [path]);
    });

  it("tells of an answer that nobody takes", async () => {
    const stream = (await session()).request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/proto",
    });
    stream.on("error", () => undefined);
    await once(stream.end(), "response");
    stream.close(http2.constants.NGHTTP2_CANCEL);
    assert.ok((await unanswered.promise) instanceof Error);
  });
});
