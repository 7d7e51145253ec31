import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "mocha";
import { agentSerialNumbers } from "../../scripts/peers/spire-api/agents.ts";
import {
  activateX509Authority,
  activeX509Authority,
  prepareX509Authority,
  revokeX509Authority,
  taintX509Authority,
} from "../../scripts/peers/spire-api/local-authority.ts";
import { trustDomain } from "../../scripts/quick-start/identities.ts";
import { canGiveUids } from "../controller/backends/local/if-root.ts";
import { eventually } from "../support/eventually.ts";
import { healthPages } from "../support/health-pages.ts";
import { usePlatform } from "../support/platform.ts";
import { usePrintingJobs } from "../support/printing-jobs.ts";
import { issuerOf, spireOf } from "../support/real-spire.ts";

const { signal } = new AbortController();

describe("a CA of real SPIRE that is revoked while a job runs", () => {
  if (!canGiveUids("a revoked CA of real SPIRE")) return;
  // So long-lived that nothing but the revocation replaces them.
  const real = usePlatform({ spire: { svidTtlSeconds: 3_600 } });
  const { server, facadeSource } = spireOf(real);
  const { running, openGate, executors, renewed, assertComplete } = usePrintingJobs(real);

  /** The bootstrap of the only executor. */
  const bootstrapPid = async (): Promise<number> => {
    const [executor] = await executors();
    assert.ok(executor !== undefined);
    const file = path.join(real.platform.folder, "state/executors", executor.name, "executor.json");
    const { process } = JSON.parse(await readFile(file, "utf8")) as { process: { pid: number } };
    return process.pid;
  };

  it("ends the session whose SVID is of that CA; the executor comes back with its new one, and the job succeeds", async () => {
    const run = await running("revoked");
    const sessions = () => healthPages(real.platform.environment).metric("runners_facade_sessions");
    await using facade = await facadeSource();
    const first = issuerOf(facade.current());
    const old = await activeX509Authority(server(), signal);
    const next = await prepareX509Authority(server(), signal);
    await facade.until("both CAs are in the bundle", ({ bundlePem }) => bundlePem.length === 2);
    await activateX509Authority(server(), next, signal);

    // It does not take the new SVID that it is given now, as one does that is slow.
    const pid = await bootstrapPid();
    process.kill(pid, "SIGSTOP");
    const stopped = await executors();
    try {
      const before = await agentSerialNumbers(server(), signal);
      await taintX509Authority(server(), old, signal);
      await facade.until("the new CA has signed for the facade", (svid) => issuerOf(svid) !== first);
      // Or the agent would be lost with the CA of its own SVID.
      await eventually(
        "the agent has renewed itself",
        async () => String(await agentSerialNumbers(server(), signal)) !== String(before),
      );
      assert.ok(((await sessions()) ?? 0) > 0, "its session is open: the CA is still in the bundle");
      assert.ok(!real.lines.some(({ msg }) => msg === "connection refused"));
      await revokeX509Authority(server(), old, signal);
      const refused = await real.line(
        ({ msg, kind }) => msg === "connection refused" && kind === "untrusted",
      );
      assert.equal(refused["reason"], "its CA has left the bundle");
      assert.equal(refused["spiffeId"], `spiffe://${trustDomain}/ci/demo/revoked/print-0`);
    } finally {
      process.kill(pid, "SIGCONT");
    }
    await facade.until("the old CA has left the bundle", ({ bundlePem }) => bundlePem.length === 1);
    await renewed(1, stopped);
    await openGate("revoked");
    await assertComplete(run);
    const errors = real.lines.filter(({ level }) => level === "error" || level === "fatal");
    assert.deepEqual(errors, []);
  });
});
