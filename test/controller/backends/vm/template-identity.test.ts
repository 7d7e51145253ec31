import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { BackendError, type Executor } from "../../../../controller/backends/backend.ts";
import { createTemplateIdentity } from "../../../../controller/backends/vm/template-identity.ts";
import { anAssignment, anExecutorMetadata, testStart, testTrustDomain } from "../../../support/builders.ts";

const { signal } = new AbortController();
const socket = "unix:///run/spire/agent-sockets/spire-agent.sock";

function anExecutor(overrides: Parameters<typeof anAssignment>[0] = {}): Executor {
  const metadata = anExecutorMetadata({ assignment: anAssignment({ backend: "vm", ...overrides }) });
  return { name: "gitea-task-42-1-00000000", metadata, state: { phase: "running" }, createdAt: testStart };
}

describe("the identity of a VM whose template brings it", () => {
  const identity = createTemplateIdentity({ socket, uid: 2000, trustDomain: testTrustDomain });

  it("B-60 tells the VM the socket of its agent, and for whom it is", async () => {
    assert.deepEqual(await identity.prepare(anExecutor().metadata, signal), {
      SPIFFE_ENDPOINT_SOCKET: socket,
      CI_EXECUTOR_UID: "2000",
    });
  });

  it("B-62 is bound where the stored SPIFFE ID is the expected one", async () => {
    assert.deepEqual(await identity.bind(anExecutor(), signal), { bound: true });
    assert.deepEqual(await identity.bind(anExecutor({ trust: "fork" }), signal), { bound: true });
  });

  for (const [what, overrides] of [
    ["of another job", { spiffeId: "spiffe://example.org/ci/acme/widgets/publish" }],
    [
      "of a trusted branch for a fork",
      { trust: "fork", spiffeId: "spiffe://example.org/ci/acme/widgets/build" },
    ],
    ["of another trust domain", { spiffeId: "spiffe://example.com/ci/acme/widgets/build" }],
    ["of a repository that can have none", { repository: "acme/..", spiffeId: "spiffe://example.org/ci" }],
  ] as const)
    it(`B-62 is refused where the stored SPIFFE ID is ${what}`, async () => {
      for (const call of [
        identity.bind(anExecutor(overrides), signal),
        identity.prepare(anExecutor(overrides).metadata, signal),
      ])
        await assert.rejects(call, (error) => {
          assert.ok(error instanceof BackendError);
          assert.deepEqual([error.kind, error.reason], ["terminal", "identity"]);
          assert.match(error.message, /the executor of gitea-task-42 says to be "spiffe:/);
          return true;
        });
    });

  it("has nothing to take back, and lacks nothing that is known here", async () => {
    await identity.revoke("gitea-task-42-1-00000000", signal);
    assert.equal(identity.lack("gitea-task-42-1-00000000"), undefined);
    const over = new AbortController();
    const running = identity.run(
      async () => true,
      () => {},
      over.signal,
    );
    over.abort();
    await running;
  });
});
