import assert from "node:assert/strict";
import { connect } from "node:net";
import { once } from "node:events";
import { describe, it } from "mocha";
import { type Check, serveHealth } from "../../../controller/health/health-server.ts";
import { freePort } from "../../../scripts/peers/free-port.ts";

const check = (name: string, problem: () => string | undefined): Check => ({ name, problem });
const good = check("loop", () => undefined);
const none = () => [];

type Checks = { alive?: Check[]; well?: Check[]; ready?: Check[] };

async function serve({ alive = [good], well = [good], ready = [good] }: Checks = {}) {
  const port = await freePort();
  const server = await serveHealth({
    alive: () => alive,
    well: () => well,
    ready: () => ready,
    listen: { host: "127.0.0.1", port },
  });
  const get = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`);
    return { status: answer.status, text: await answer.text() };
  };
  return { port, get, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

describe("health", () => {
  it("is ok when nothing is wrong, with a query as well", async () => {
    await using health = await serve();
    assert.deepEqual(await health.get("/healthz"), { status: 200, text: "ok\n" });
    assert.deepEqual(await health.get("/readyz?verbose"), { status: 200, text: "ok\n" });
  });

  it("says every problem, each check asked anew, and keeps alive and ready apart", async () => {
    let problem: string | undefined = "no pass for 400 s";
    await using health = await serve({
      alive: [check("pod", () => problem), check("vm", () => "stuck"), good],
    });
    assert.deepEqual(await health.get("/healthz"), {
      status: 503,
      text: "pod: no pass for 400 s\nvm: stuck\n",
    });
    assert.deepEqual(await health.get("/livez"), await health.get("/healthz"));
    assert.equal((await health.get("/readyz")).status, 200);
    problem = undefined;
    assert.equal((await health.get("/healthz")).text, "vm: stuck\n");
  });

  it("is neither a reason to restart nor to send nobody here any more what only an operator can mend", async () => {
    await using health = await serve({ well: [check("unregistered", () => "Gitea does not know us")] });
    assert.deepEqual(await health.get("/healthz"), {
      status: 503,
      text: "unregistered: Gitea does not know us\n",
    });
    assert.equal((await health.get("/livez")).status, 200);
    assert.equal((await health.get("/readyz")).status, 200);
  });

  it("takes a check that fails for a problem, and goes on serving", async () => {
    const failing = check("svid", () => {
      throw new Error("zq7Pw3");
    });
    await using health = await serve({ ready: [failing] });
    assert.deepEqual(await health.get("/readyz"), { status: 503, text: "svid: it cannot be checked\n" });
    assert.equal((await health.get("/healthz")).status, 200);
  });

  it("knows no other path", async () => {
    await using health = await serve();
    for (const path of ["/", "/healthz/x", "//", "/..%2fhealthz"])
      assert.equal((await health.get(path)).status, 404);
  });

  it("rejects when the port is in use", async () => {
    await using health = await serve();
    const listen = { host: "127.0.0.1", port: health.port };
    await assert.rejects(serveHealth({ alive: none, well: none, ready: none, listen }), {
      code: "EADDRINUSE",
    });
  });

  it("closes although somebody holds a connection open", async () => {
    const health = await serve();
    const socket = connect(health.port, "127.0.0.1");
    await once(socket, "connect");
    const closed = once(
      socket.on("error", () => undefined),
      "close",
    );
    await health[Symbol.asyncDispose]();
    await closed;
  });
});
