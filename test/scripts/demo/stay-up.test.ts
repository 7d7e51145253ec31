import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { stillUp } from "../../../scripts/demo/stay-up.ts";

const run = "http://127.0.0.1:3000/demo/hello/actions/runs/1";
const own = {
  api: { url: "http://127.0.0.1:3000", token: "a-token" },
  repository: { owner: "demo", name: "hello" },
  login: { user: "demo", password: "word" },
  noPages: undefined,
  controllerLog: "/run/controller.log",
};

describe("where to look while the demo stays up", () => {
  it("is the run's page, a login, a clone and the controller's log", () => {
    assert.deepEqual(stillUp(own, run), [
      "",
      "Still up, until Ctrl-C",
      `  the run        ${run}`,
      "  login          demo / word",
      "  push anything  git clone http://demo:word@127.0.0.1:3000/demo/hello.git",
      "  controller     /run/controller.log",
    ]);
  });

  it("says that there is no web page, and why", () => {
    const lines = stillUp({ ...own, noPages: "npm is not on PATH" }, run);
    assert.equal(lines[2], `  the run        ${run} (no web page: npm is not on PATH)`);
  });

  it("tells no login, and no token, of somebody's Gitea below a path", () => {
    const api = { url: "https://gitea.example.org/git", token: "a-token" };
    const text = stillUp({ ...own, api, login: undefined }, run).join("\n");
    assert.match(text, /git clone https:\/\/gitea\.example\.org\/git\/demo\/hello\.git$/m);
    assert.doesNotMatch(text, /login|a-token/);
  });
});
