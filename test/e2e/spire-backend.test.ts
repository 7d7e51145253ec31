import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe } from "mocha";
import { createSpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { prepareSpire, type Spire, startSpire } from "../../scripts/peers/start-spire.ts";
import { canGiveUids } from "../controller/backends/local/if-root.ts";
import { makeLocalWorld } from "../controller/backends/local/local-world.ts";
import { describeBackend } from "../support/backend-contract.ts";
import { testTrustDomain } from "../support/builders.ts";

/** SPIRE is compiled the first time. */
const buildMs = 30 * 60_000;
const { signal } = new AbortController();

describe("executors that are registered with real SPIRE", () => {
  if (!canGiveUids("the local backend on real SPIRE")) return;
  let folder: string;
  let spire: Spire;
  before("start SPIRE", async function () {
    this.timeout(buildMs);
    const peers = await prepareSpire(createReport(), signal);
    folder = await mkdtemp(path.join(tmpdir(), "spire-"));
    await chmod(folder, 0o755);
    spire = await startSpire({ folder, trustDomain: testTrustDomain, peers }, signal);
  });
  after(async () => {
    await spire.stop();
    await rm(folder, { recursive: true, maxRetries: 5 });
  });

  describeBackend("the local backend", "pod", () => {
    const { serverSocket, parentId, peers } = spire;
    const server = { serverBinary: peers.spireServer.binary, serverSocket };
    return makeLocalWorld({
      identities: {
        // The agent's socket is one that appears when the test wants it to.
        identityIn: (own) => ({
          ...server,
          kind: "spire",
          parentId,
          agentSocket: path.join(own, "agent.sock"),
          svidTtlSeconds: 60,
        }),
        registered: async (name) =>
          (await createSpireEntries(server).below(parentId, signal)).some(({ id }) =>
            id.endsWith(`.${name}`),
          ),
      },
    });
  });
});
