import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, it } from "mocha";
import { freePort } from "../../../scripts/peers/free-port.ts";

describe("a free port", () => {
  it("can be listened on, and is none that an outgoing connection may take", async () => {
    const port = await freePort();
    assert.ok(port >= 20_000 && port < 32_768, String(port));
    await using server = createServer();
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  });

  it("is given out once, to whatever process asks", async () => {
    const mine = await freePort();
    const name = createServer().listen(`\0gitea-dynamic-runner-port-${mine}`);
    const [error] = (await once(name, "error")) as [NodeJS.ErrnoException];
    assert.equal(error.code, "EADDRINUSE");
    const many = await Promise.all(Array.from({ length: 300 }, () => freePort()));
    assert.equal(new Set([mine, ...many]).size, 301);
  });

  it("says why there is none at an address that is not ours", async () => {
    await assert.rejects(freePort("192.0.2.1"), /EADDRNOTAVAIL/);
  });
});
