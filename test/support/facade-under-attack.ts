import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before } from "mocha";
import { z } from "zod";
import { askGitea } from "../../scripts/peers/gitea-api/client.ts";
import { trustDomain } from "../../scripts/quick-start/identities.ts";
import { eventually } from "./eventually.ts";
import { processesMentioning } from "./find-processes.ts";
import { healthPages } from "./health-pages.ts";
import { type PlatformUnderTest, usePlatform } from "./platform.ts";
import type { PushedRun } from "./push-run.ts";
import { type Credentials, stealCredentials } from "./steal-credentials.ts";
import {
  createTestCa,
  issueLeaf,
  type LeafOptions,
  openTestCa,
  type TestCa,
  type TestLeaf,
} from "./test-pki.ts";

/** A real platform, on it a job that somebody attacks, and everything that the attacker may have. */
export type FacadeUnderAttack = {
  readonly real: PlatformUnderTest;
  readonly victimsId: string;
  readonly mallorysId: string;
  readonly victim: () => Credentials;
  /** The executor of an attempt of the attacker's job that another one has replaced. */
  readonly earlier: () => Credentials;
  /** The current one's, whose bootstrap says no word: it is the attacker who speaks for it. */
  readonly mallory: () => Credentials;
  readonly mallorysRun: () => PushedRun;
  /** A certificate of the facade's own CA, or of another. */
  readonly leafOf: (
    id: string,
    options?: LeafOptions,
    issuer?: "ours" | "stranger" | "federated",
  ) => Promise<TestLeaf>;
  /** How many callers and connections were refused, for this reason or any. */
  readonly refused: (reason?: string) => Promise<number>;
  /** The victim says something: Gitea hears that, all that it had said before, and nothing else. */
  readonly untouched: () => Promise<void>;
  /** The victim ends, as it would have without all of this. */
  readonly endsWell: () => Promise<void>;
};

const victimsId = `spiffe://${trustDomain}/ci/demo/victim/build`;
const mallorysId = `spiffe://${trustDomain}/ci/demo/mallory/attack`;
const labels = ["self-hosted", "pod", "vm"];
const { signal } = new AbortController();
const runnersSchema = z.object({
  runners: z.array(z.object({ labels: z.array(z.object({ name: z.string() })) })),
});

/** Registers hooks that start the platform and both jobs. */
export function useFacadeUnderAttack(): FacadeUnderAttack {
  const real = usePlatform();
  let folder = "";
  let victimsRun: PushedRun;
  let mallorysRun: PushedRun;
  let victim: Credentials;
  let earlier: Credentials;
  let mallory: Credentials;
  let cas: Record<"ours" | "stranger" | "federated", TestCa>;
  let said = 0;
  const gate = () => path.join(folder, "open");

  before("let the victim's job run", async () => {
    folder = await mkdtemp(path.join(tmpdir(), "red-team-"));
    await chmod(folder, 0o755);
    victimsRun = await real.push(
      "victim",
      `
on: push
jobs:
  build:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          echo "the job begins"
          next=1
          while [ ! -e ${gate()} ]; do
            if [ -e ${folder}/$next ]; then echo "said $next"; next=$((next + 1)); fi
            sleep 0.1
          done
          echo "the job ends"
`,
    );
    await real.line(({ event }) => event === "runner_claimed");
    victim = await stealCredentials(real.platform.folder);
    assert.equal(victim.spiffeId, victimsId);
  });
  before("take over an executor, and the one that takes its place", async function () {
    this.timeout(180_000);
    using issuer = pausable();
    issuer.pause();
    mallorysRun = await real.push(
      "mallory",
      `
on: push
jobs:
  attack:
    runs-on: [self-hosted, vm]
    steps:
      - run: exit 1
`,
    );
    earlier = await takeOver(0);
    issuer.resume();
    await real.line(({ event, backend }) => event === "identity_bound" && backend === "vm");
    issuer.pause();
    process.kill(earlier.pid, "SIGKILL");
    mallory = await takeOver(1);
    assert.ok(mallory.assignmentId === earlier.assignmentId && mallory.capability !== earlier.capability);
  });
  before("get hold of the CA's key", async () => {
    const authority = path.join(real.platform.folder, "spiffe/authority.json");
    const { caCertificate, caKey } = JSON.parse(await readFile(authority, "utf8")) as Record<string, string>;
    cas = {
      ours: await openTestCa(caCertificate ?? "", caKey ?? ""),
      stranger: await createTestCa(trustDomain),
      federated: await createTestCa("federated.example"),
    };
  });
  after(() => rm(folder, { recursive: true, force: true }));

  /** The development Workload API: as long as it stands still no bootstrap gets the SVID without which it cannot claim. */
  function pausable() {
    const [found, ...more] = processesMentioning(path.join(real.platform.folder, "spiffe"));
    assert.ok(found !== undefined && more.length === 0, "one process serves all identities");
    const resume = () => void process.kill(found.pid, "SIGCONT");
    return { pause: () => void process.kill(found.pid, "SIGSTOP"), resume, [Symbol.dispose]: resume };
  }

  /** Waits for the VM backend's executor of this number and stops its bootstrap before it can claim. */
  async function takeOver(number: number): Promise<Credentials> {
    const created = () =>
      real.lines.filter(({ event, backend }) => event === "executor_created" && backend === "vm");
    const line = await real.line(() => created().length > number).then(() => created()[number]);
    const taken = await stealCredentials(real.platform.folder, String(line?.["executor"]));
    process.kill(taken.pid, "SIGSTOP");
    const claims = real.lines.filter(
      ({ event, assignment }) => event === "runner_claimed" && assignment === taken.assignmentId,
    );
    assert.deepEqual(claims, [], "it was stopped too late");
    return taken;
  }

  const rowsOf = async (job: Parameters<PushedRun["log"]>[0]) =>
    (await victimsRun.log(job)).filter((row) => /^(the job|said)|owned/.test(row));
  const heard = () => ["the job begins", ...Array.from({ length: said }, (_, index) => `said ${index + 1}`)];
  return {
    real,
    victimsId,
    mallorysId,
    victim: () => victim,
    earlier: () => earlier,
    mallory: () => mallory,
    mallorysRun: () => mallorysRun,
    leafOf: (id, options = {}, issuer = "ours") => issueLeaf(cas[issuer], id, options),
    refused: async (reason = '[^"]*') => {
      const { text } = await healthPages(real.platform.environment).page("metrics");
      const sample = new RegExp(`^runners_refused_callers_total\\{reason="${reason}"\\} (\\d+)$`, "gm");
      return [...text.matchAll(sample)].reduce((sum, [, count]) => sum + Number(count), 0);
    },
    untouched: async () => {
      await writeFile(path.join(folder, String(++said)), "");
      let rows: readonly string[] = [];
      await eventually("the victim is heard", async () => {
        const [job] = await victimsRun.jobs((jobs) => jobs.length > 0);
        assert.equal(job?.status, "in_progress");
        rows = await rowsOf(job);
        return rows.at(-1) === `said ${said}`;
      });
      assert.deepEqual(rows, heard());
      const request = { method: "GET", path: "/admin/actions/runners" } as const;
      const { runners } = await askGitea(real.platform.admin, request, runnersSchema, signal);
      const declared = runners.map((runner) => runner.labels.map(({ name }) => name));
      assert.deepEqual(declared, [labels]);
    },
    endsWell: async () => {
      await writeFile(gate(), "");
      const [job] = await victimsRun.jobs();
      assert.equal(job?.conclusion, "success");
      assert.deepEqual(await rowsOf(job), [...heard(), "the job ends"]);
    },
  };
}
