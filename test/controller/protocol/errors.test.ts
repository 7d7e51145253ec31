import assert from "node:assert/strict";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, it } from "mocha";
import { fromGitea } from "../../../controller/protocol/errors.ts";

/** The texts that test/support/gitea-contract.ts sees at a real Gitea, and those of other versions. */
const texts = [
  ["rpc error: code = Unauthenticated desc = unregistered runner", "unregistered"],
  ["rpc error: code = Unauthenticated desc = Runner is deleted", "unregistered"],
  ["rpc error: code = Internal desc = update task: invalid runner for task", "gone"],
  ["rpc error: code = Internal desc = invalid runner for task", "gone"],
  ["rpc error: code = Internal desc = update task: resource does not exist", "gone"],
  ["rpc error: code = Internal desc = get task: task with id 7: resource does not exist", "gone"],
  ["rpc error: code = AlreadyExists desc = log file has been archived", "log-archived"],
  ["rpc error: code = Internal desc = transfer logs: storage save: permission denied", "log-trouble"],
  ["rpc error: code = Internal desc = unable to append logs to dbfs file: locked", "log-trouble"],
  // A deleted run in the way of FetchTask says nothing of any task of ours.
  ["rpc error: code = Internal desc = pick task: resource does not exist", "transient"],
  ["rpc error: code = Internal desc = query tasks version failed: database is locked", "transient"],
  // Not at the end, as in a page of a proxy.
  ["<p>unregistered runner</p>", "transient"],
  ["HTTP 502", "transient"],
] as const;

describe("errors of Gitea", () => {
  for (const [text, fault] of texts)
    it(`mean ${fault}: ${text.replace("rpc error: code = ", "")}`, () => {
      assert.equal(fromGitea("trying", new ConnectError(text, Code.Unknown)).fault, fault);
    });

  it("are transient when no answer came, or a real code of a proxy", () => {
    assert.equal(fromGitea("trying", new TypeError("fetch failed")).fault, "transient");
    assert.equal(fromGitea("trying", new ConnectError("no", Code.Unauthenticated)).fault, "transient");
    assert.equal(fromGitea("trying", undefined).fault, "transient");
  });

  it("tell whether Gitea itself has said no, or nobody knows what came of the call", () => {
    const answered = (error: unknown) => fromGitea("trying", error).answered;
    assert.equal(answered(new ConnectError("desc = pick task: locked", Code.Unknown)), true);
    assert.equal(answered(new ConnectError("invalid runner for task", Code.Unknown)), true);
    assert.equal(answered(new ConnectError("reset", Code.Aborted)), false);
    assert.equal(answered(new ConnectError("HTTP 502", Code.Unavailable)), false);
    assert.equal(answered(new TypeError("fetch failed")), false);
    for (const page of ["HTTP 500", "HTTP 302", "unsupported content type text/html"])
      assert.equal(answered(new ConnectError(page, Code.Unknown)), false, page);
  });

  it("say what was tried, and keep the cause", () => {
    const cause = new ConnectError("x", Code.Unavailable);
    const error = fromGitea("fetching a task", cause);
    assert.match(error.message, /^fetching a task \(code \d+\)$/);
    assert.equal(error.cause, cause);
  });
});
