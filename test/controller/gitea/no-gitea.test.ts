import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, it } from "mocha";
import { beat } from "../../../controller/gitea/beat.ts";
import { createRunnerClient, type RunnerClient } from "../../../controller/gitea/runner-client.ts";
import { GiteaError } from "../../../controller/protocol/errors.ts";

const { signal } = new AbortController();
const page = "<html><body>unregistered runner</body></html>";
const html = { "content-type": "text/html; charset=utf-8" };
const protobuf = { "content-type": "application/proto" };

/** What may stand where Gitea is to be: a proxy, a login page, another program, or nothing. */
const answers: readonly (readonly [what: string, answer: (response: ServerResponse) => void])[] = [
  ["a page", (response) => void response.writeHead(200, html).end(page)],
  ["a proxy's page that says 502", (response) => void response.writeHead(502, html).end(page)],
  ["a page that says 500", (response) => void response.writeHead(500, html).end(page)],
  ["a page that says 404", (response) => void response.writeHead(404, html).end(page)],
  ["a page that says 403", (response) => void response.writeHead(403, html).end(page)],
  ["a way to a login", (response) => void response.writeHead(302, { location: "/user/login" }).end()],
  ["nothing at all, with success", (response) => void response.writeHead(200).end()],
  ["nothing at all, with an error", (response) => void response.writeHead(500).end()],
  [
    "JSON that is cut off",
    (response) => void response.writeHead(500, { "content-type": "application/json" }).end("{"),
  ],
  [
    "bytes that are no message",
    (response) => void response.writeHead(200, protobuf).end(Buffer.from("ff".repeat(9), "hex")),
  ],
  ["no word", (response) => void response.destroy()],
  [
    "half a message",
    (response) => {
      response.writeHead(200, { ...protobuf, "content-length": "100" });
      response.write("half", () => response.destroy());
    },
  ],
];

describe("what answers in Gitea's place", () => {
  let answer: (response: ServerResponse) => void;
  let close: () => Promise<void>;
  let client: RunnerClient;
  let heard: (string | undefined)[];
  beforeEach(async () => {
    const server = createServer((request, response) => {
      request.resume().once("end", () => {
        answer(response);
      });
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    heard = [];
    const onAnswer = (fault: string | undefined) => void heard.push(fault);
    client = createRunnerClient({ url, uuid: "u", token: "zq7Pw3", version: "v", onAnswer });
    close = async () => {
      client.close();
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    };
  });
  afterEach(() => close());

  for (const [what, given] of answers)
    it(`with ${what} has said nothing: every call may have had its effect, and is to be tried again`, async () => {
      answer = given;
      for (const call of [
        () => client.declare(["pod"], signal),
        () => client.fetchTask(0n),
        () => client.updateLog({ taskId: 7n }, signal),
        () => beat(client, 7n, signal),
      ])
        await assert.rejects(call(), (error) => {
          assert.ok(error instanceof GiteaError);
          assert.deepEqual([error.fault, error.answered], ["transient", false]);
          assert.doesNotMatch(`${error.message} ${String(error.cause)}`, /<html|runner<|zq7Pw3/);
          return true;
        });
      assert.deepEqual(heard, []);
    });

  it("with a message that says nothing has no task, and wants none to end", async () => {
    answer = (response) => void response.writeHead(200, protobuf).end();
    const { task, tasksVersion } = await client.fetchTask(7n);
    assert.deepEqual([task, tasksVersion], [undefined, 0n]);
    assert.equal(await beat(client, 7n, signal), "running");
  });
});
