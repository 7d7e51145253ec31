import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { executorName } from "../../../../controller/assignment/executor-metadata.ts";
import { BackendError } from "../../../../controller/backends/backend.ts";
import { agentToken, executorOfAgent } from "../../../../controller/backends/vm/agent-token.ts";
import { parseSpiffeId } from "../../../../controller/identity/spiffe-id.ts";
import { anAssignment, anAttempt, anExecutorMetadata } from "../../../support/builders.ts";

const random = "0123456789abcdef0123456789abcdef";
const agentId = (token: string, trustDomain = "example.org") =>
  parseSpiffeId(`spiffe://${trustDomain}/spire/agent/join_token/${token}`);

describe("the token of a VM's agent", () => {
  it("names owner and executor", () => {
    assert.equal(
      agentToken(anExecutorMetadata(), random, "example.org"),
      `ci.8f14e45f-ceea-467f-a0e6-c4e8e1c8a1b2.gitea-task-42-1-00000000.${random}`,
    );
  });

  it("is a part of a SPIFFE ID, and read there by its owner alone, whatever the owners", () => {
    const owner = fc.stringMatching(/^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/);
    const taskId = fc.bigInt({ min: 1n, max: 2n ** 63n - 1n });
    const attempt = fc.integer({ min: 1, max: 999_999_999 });
    fc.assert(
      fc.property(owner, owner, taskId, attempt, (ours, others, task, number) => {
        const assignment = anAssignment({ taskId: task, backend: "vm" });
        const metadata = anExecutorMetadata({ owner: ours, assignment, attempt: anAttempt({ number }) });
        const id = agentId(agentToken(metadata, random, "example.org"));
        assert.equal(executorOfAgent(id, ours), executorName(assignment, metadata.attempt));
        if (others !== ours) assert.equal(executorOfAgent(id, others), undefined);
      }),
    );
  });

  it("is not made if SPIRE could not store the agent's ID", () => {
    const trustDomain = (length: number) => "a".repeat(length);
    const room = 255 - agentId(agentToken(anExecutorMetadata(), random, "a"), "a").length + 1;
    agentToken(anExecutorMetadata(), random, trustDomain(room));
    assert.throws(
      () => agentToken(anExecutorMetadata(), random, trustDomain(room + 1)),
      (error) =>
        error instanceof BackendError && error.kind === "terminal" && /256 characters/.test(error.message),
    );
  });

  for (const token of [
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    `ci.me.gitea-task-42-1-00000000.${random}x`,
    "ci.me.gitea-task-42-1-00000000",
    `ci.me.gitea-task-42-1-00000000.more.${random}`,
    `ci.me.other-42-1-00000000.${random}`,
    `x.ci.me.gitea-task-42-1-00000000.${random}`,
  ])
    it(`is not ${token}`, () => {
      assert.equal(executorOfAgent(agentId(token), "me"), undefined);
    });

  it("is read of an agent that joined by a token only", () => {
    const path = `ci.me.gitea-task-42-1-00000000.${random}`;
    for (const id of [`spiffe://example.org/spire/agent/x509pop/${path}`, `spiffe://example.org/${path}`])
      assert.equal(executorOfAgent(parseSpiffeId(id), "me"), undefined);
  });
});
