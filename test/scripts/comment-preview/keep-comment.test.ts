import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, beforeEach, describe, it } from "mocha";
import { keepComment } from "../../../scripts/comment-preview/keep-comment.ts";

const marker = "<!-- mark -->";
const place = { repository: { owner: "o", name: "n" }, pull: 5 };

type Answer = { readonly status: number; readonly body: unknown };

/** A Gitea of another version, or behind something that answers in its place. */
describe("the comment of a pull request, where Gitea answers otherwise", () => {
  let server: Server;
  let answer: (request: string) => Answer = () => ({ status: 500, body: {} });
  const asked: string[] = [];
  before("serve", async () => {
    server = createServer((request, response) => {
      const line = `${request.method} ${request.url?.replace("/api/v1/", "")}`;
      asked.push(line);
      const { status, body } = answer(line);
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  });
  after("end it", () => {
    server.close();
    server.closeAllConnections();
  });
  beforeEach(() => asked.splice(0));
  const keep = async () => {
    const { port } = server.address() as AddressInfo;
    const api = { url: `http://127.0.0.1:${port}`, token: "t" };
    return await keepComment(api, place, { marker, body: `${marker}\nplan` }, AbortSignal.timeout(50_000));
  };
  const usual = (request: string): Answer => {
    if (request === "GET repos/o/n/pulls/5") return { status: 200, body: { state: "open" } };
    if (request === "GET user") return { status: 200, body: { id: -2 } };
    if (request.startsWith("PATCH")) return { status: 200, body: {} };
    return { status: 201, body: { id: 900, body: "" } };
  };

  it("B-95 is found on a later page, by asking until nothing new comes", async () => {
    const comments = Array.from({ length: 120 }, (_, index) => ({
      id: index + 1,
      body: index === 110 ? `${marker}\nold` : "word",
      user: { id: index === 110 ? -2 : 3 },
    }));
    answer = (request) => {
      const page = /\?limit=(\d+)&page=(\d+)$/.exec(request);
      if (page === null) return usual(request);
      const [size, number] = [Number(page[1]), Number(page[2])];
      return { status: 200, body: comments.slice(size * (number - 1), size * number) };
    };
    assert.deepEqual(await keep(), { kind: "edited", id: 111 });
    assert.deepEqual(
      asked.filter((line) => !line.startsWith("GET")),
      ["PATCH repos/o/n/issues/comments/111"],
    );
  });

  it("is not looked for for ever where each page has something new", async () => {
    let next = 0;
    answer = (request) =>
      request.includes("page=")
        ? { status: 200, body: [{ id: ++next, body: "", user: null }] }
        : usual(request);
    await assert.rejects(keep(), /pull request 5 has more than 200 comments/);
  });

  it("is made where there is none and the server's list is null", async () => {
    answer = (request) => (request.includes("page=") ? { status: 200, body: null } : usual(request));
    assert.deepEqual(await keep(), { kind: "created", id: 900 });
  });

  it("is neither made nor edited when an edit fails for another reason than that it is gone", async () => {
    answer = (request) => {
      if (request.includes("page="))
        return { status: 200, body: [{ id: 1, body: `${marker}\n`, user: { id: -2 } }] };
      return request.startsWith("PATCH") ? { status: 502, body: "proxy" } : usual(request);
    };
    await assert.rejects(keep(), /502/);
    assert.ok(!asked.some((line) => line.startsWith("POST")));
  });
});
