import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { after, afterEach, before, beforeEach, describe, it } from "mocha";
import { BackendError } from "../../controller/backends/backend.ts";
import { createSpireEntries, type SpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createWorkloadClient, type WorkloadClient } from "../../controller/spiffe/workload-client.ts";
import { openX509Source } from "../../controller/spiffe/x509-source.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { prepareSpire, type Spire, type SpirePeers, startSpire } from "../../scripts/peers/start-spire.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { eventually } from "../support/eventually.ts";

/** What is given now; nothing as long as no entry has arrived. */
async function* watched(client: WorkloadClient) {
  try {
    yield* client.watchX509Svids(signal);
  } catch (error) {
    if (!(error instanceof ConnectError && error.code === Code.PermissionDenied)) throw error;
  }
}

/** SPIRE is compiled the first time. */
const buildMs = 30 * 60_000;
const { signal } = new AbortController();
const trustDomain = "example.org";
const ownUid = `unix:uid:${process.geteuid?.() ?? 0}`;

describe("the real SPIRE", () => {
  let peers: SpirePeers;
  let folder: string;
  let spire: Spire;
  let entries: SpireEntries;
  before("start SPIRE", async function () {
    this.timeout(buildMs);
    peers = await prepareSpire(createReport(), signal);
    folder = await mkdtemp(path.join(tmpdir(), "spire-"));
    await chmod(folder, 0o755);
    spire = await startSpire({ folder, trustDomain, peers }, signal);
    const { serverSocket } = spire;
    entries = createSpireEntries({ serverBinary: peers.spireServer.binary, serverSocket });
  });
  after(async () => {
    await spire.stop();
    await rm(folder, { recursive: true, maxRetries: 5 });
  });
  const entry = (id: string, spiffePath: string, selector = "unix:uid:60600") => ({
    id,
    spiffeId: `spiffe://${trustDomain}${spiffePath}`,
    parentId: spire.parentId,
    selectors: [selector],
  });

  it("keeps its server's socket and its configuration to its own user, and lets everybody to the agent", async () => {
    const modeOf = async (name: string) => (await stat(path.join(folder, name))).mode & 0o777;
    for (const name of ["server.json", "agent.json"]) assert.equal(await modeOf(name), 0o600, name);
    assert.equal((await modeOf("server.sock")) & 0o007, 0);
    assert.equal((await modeOf("agent/api.sock")) & 0o006, 0o006);
  });

  describe("and its entries", () => {
    afterEach(async () => {
      for (const { id } of await entries.below(spire.parentId, signal)) await entries.remove(id, signal);
    });

    it("are created, listed and deleted; deleting one that is gone is no error", async () => {
      const { selectors, ...one } = entry("ci.owner.pod.one", "/ci/one");
      const both = [...selectors, "unix:gid:60600"];
      assert.deepEqual(await entries.create({ ...one, selectors: both, x509TtlSeconds: 60 }, signal), {
        kind: "created",
      });
      const [listed, ...others] = await entries.below(spire.parentId, signal);
      assert.deepEqual(others, []);
      assert.deepEqual(listed && { ...listed, selectors: [...listed.selectors].toSorted() }, {
        ...one,
        selectors: both.toSorted(),
      });
      await entries.remove(one.id, signal);
      await entries.remove(one.id, signal);
      assert.deepEqual(await entries.below(spire.parentId, signal), []);
    });

    it("are one for the same identity, parent and selectors, under the first one's id", async () => {
      await entries.create(entry("first", "/ci/same"), signal);
      const again = await entries.create(entry("second", "/ci/same"), signal);
      assert.deepEqual(again, { kind: "exists", id: "first" });
    });

    it("cannot have the id of another one", async () => {
      const there = entry("taken", "/ci/one");
      await entries.create(there, signal);
      const outcome = await entries.create(entry("taken", "/ci/two"), signal);
      assert.deepEqual(outcome, { kind: "id-taken", by: there });
    });

    it("are refused for good in another trust domain", async () => {
      const foreign = { ...entry("foreign", "/x"), spiffeId: "spiffe://other.org/x" };
      await assert.rejects(entries.create(foreign, signal), (error) => {
        assert.ok(error instanceof BackendError && error.kind === "terminal", String(error));
        assert.match(error.message, /SPIRE refuses with code 3: .*trust domain/);
        return true;
      });
    });

    // SPIRE orders them by their ids, which are random unless given.
    for (const [first, second] of [
      ["a", "z"],
      ["z", "a"],
    ] as const)
      it(`of one workload are told apart by the exact ID (${first}, ${second})`, async () => {
        await entries.create(entry(`${first}.job`, `/ci/job-${first}`, ownUid), signal);
        await entries.create(entry(`${second}.default`, `/ns/default-${first}`, ownUid), signal);
        using client = createWorkloadClient({ kind: "unix", path: spire.agentSocket });
        await eventually("both have arrived", async () => {
          for await (const { svids } of watched(client)) {
            const order = svids.map(({ spiffeId }) => spiffeId.split("/").at(-1)).join();
            const wanted = [`job-${first}`, `default-${first}`];
            return order === (first === "a" ? wanted : wanted.toReversed()).join();
          }
          return false;
        });
        const expectedId = parseSpiffeId(`spiffe://${trustDomain}/ci/job-${first}`);
        const log = createRecordingLogger();
        const wanted = { client, expectedId, clock: systemClock, random: Math.random, log };
        await using source = await openX509Source({ ...wanted, readyTimeoutMs: 60_000 }, signal);
        assert.equal(source.current().id, expectedId);
      });

    it("are still served by an agent that comes back after a crash, as who it was", async () => {
      spire.agent().signal("SIGKILL");
      assert.equal(await spire.agent().exited, "SIGKILL");
      await spire.startAgent(signal);
      await entries.create(entry("after-crash", "/ci/after-crash", ownUid), signal);
      using client = createWorkloadClient({ kind: "unix", path: spire.agentSocket });
      const expectedId = parseSpiffeId(`spiffe://${trustDomain}/ci/after-crash`);
      const wanted = { client, expectedId, clock: systemClock, random: Math.random };
      const log = createRecordingLogger();
      await using source = await openX509Source({ ...wanted, log, readyTimeoutMs: 60_000 }, signal);
      assert.equal(source.current().id, expectedId);
    });
  });

  describe("when it is started", () => {
    let own: string;
    beforeEach(async () => {
      own = await mkdtemp(path.join(tmpdir(), "spire-"));
    });
    afterEach(() => rm(own, { recursive: true, maxRetries: 5 }));

    it("shows the end of its log if it does not come up, and leaves nothing running", async () => {
      await assert.rejects(
        startSpire({ folder: own, trustDomain: "No Trust Domain", peers }, signal),
        /spire-server ended with exit code 1.*trust domain characters/s,
      );
    });

    it("leaves nothing running once it is stopped, twice if need be", async () => {
      const running = await startSpire({ folder: own, trustDomain, peers }, signal);
      const pids = [running.server.pid, running.agent().pid];
      await running.stop();
      await running.stop();
      for (const pid of pids) assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
    });

    it("gives up when it is aborted", async () => {
      const gone = AbortSignal.abort(new Error("no longer wanted"));
      await assert.rejects(startSpire({ folder: own, trustDomain, peers }, gone), /no longer wanted/);
    });
  });
});
