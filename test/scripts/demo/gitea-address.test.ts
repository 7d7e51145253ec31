import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, it } from "mocha";
import { unreachableAddress } from "../../../scripts/demo/gitea-address.ts";
import { freePort } from "../../../scripts/peers/free-port.ts";

const soon = () => AbortSignal.timeout(50_000);

describe("the address that Gitea gives to jobs", () => {
  let server: Server | undefined;
  afterEach(() => server?.close());
  /** A Gitea whose OpenID configuration is made of its own address. */
  async function serve(configuration: (url: string) => unknown): Promise<string> {
    const listening = createServer((request, response) => {
      const url = `http://${request.headers.host}`;
      const asked = request.url === "/.well-known/openid-configuration";
      response.end(JSON.stringify(asked ? configuration(url) : { version: "1.27.3" }));
    });
    server = listening;
    listening.listen(0, "127.0.0.1");
    await once(listening, "listening");
    return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
  }

  it("is no matter if it is the given one, if somebody answers there, or if Gitea does not tell it", async () => {
    for (const configuration of [
      (url: string) => ({ issuer: `${url}/` }),
      (url: string) => ({ issuer: url.replace("127.0.0.1", "localhost") }),
      () => ({}),
      () => "nothing",
    ]) {
      assert.equal(await unreachableAddress(await serve(configuration), soon()), undefined);
      server?.close();
    }
  });

  it("is told if nobody answers there", async () => {
    const nowhere = `http://127.0.0.1:${await freePort()}`;
    assert.equal(await unreachableAddress(await serve(() => ({ issuer: nowhere })), soon()), nowhere);
  });
});
