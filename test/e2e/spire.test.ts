import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { chmod, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { createSpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createWorkloadClient } from "../../controller/spiffe/workload-client.ts";
import { openX509Source } from "../../controller/spiffe/x509-source.ts";
import type { X509Svid } from "../../controller/spiffe/x509-svid.ts";
import {
  activateX509Authority,
  prepareX509Authority,
} from "../../scripts/peers/spire-api/local-authority.ts";
import { facadeId, trustDomain } from "../../scripts/quick-start/identities.ts";
import { canGiveUids } from "../controller/backends/local/if-root.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { eventually } from "../support/eventually.ts";
import { type ExecutorSeen, seeExecutors } from "../support/executors.ts";
import { type PushedRun, usePlatform } from "../support/platform.ts";
import { runAs } from "../support/run-as.ts";

const { signal } = new AbortController();
const script = path.join(import.meta.dirname, "../../scripts/gitea-job-started");
/** Has no entry. */
const strangerUid = 60_599;

describe("jobs with identities of real SPIRE", () => {
  if (!canGiveUids("jobs with identities of real SPIRE")) return;
  // SVIDs begin ten seconds before they are made, and are renewed at half of their life: every two seconds.
  const real = usePlatform({ spire: { svidTtlSeconds: 14 } });
  let gates = "";
  before(async () => {
    gates = await mkdtemp(path.join(tmpdir(), "gate-"));
    await chmod(gates, 0o755);
  });
  after(() => rm(gates, { recursive: true, force: true }));

  const spire = () => {
    const started = real.platform.spire;
    assert.ok(started !== undefined);
    return started;
  };
  const server = () => ({
    serverBinary: spire().peers.spireServer.binary,
    serverSocket: spire().serverSocket,
  });
  const entries = () => createSpireEntries(server());
  const ours = async () =>
    (await entries().below(spire().parentId, signal)).filter(({ id }) => id.startsWith("ci."));
  const state = () => path.join(real.platform.folder, "state");
  const executors = () => seeExecutors(state());
  const openGate = (name: string) => writeFile(path.join(gates, name), "");

  /** Jobs that print a numbered line twenty times a second until their gate opens. */
  const printing = (name: string, count = 1) => `
on: push
jobs:
${Array.from(
  { length: count },
  (_, index) => `
  print-${index}:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          i=0
          while i=$((i + 1)); echo "line $i"; [ ! -e ${path.join(gates, name)} ]; do sleep 0.05; done
          echo "lines $i"
`,
).join("")}`;

  /** Pushes it and waits until all of its jobs have been claimed. */
  async function running(name: string, count = 1): Promise<PushedRun> {
    const run = await real.push(name, printing(name, count));
    await claimed(count);
    return run;
  }
  const claimed = (count: number) =>
    eventually(`${count} executors have claimed`, async () => {
      const seen = await executors();
      return seen.filter(({ lines }) => lines.some(({ msg }) => msg === "task claimed")).length === count;
    });
  const received = ({ lines }: ExecutorSeen) =>
    lines.filter(({ msg }) => msg === "x509-svid received").length;
  /** Each executor that is there gets this many further SVIDs. */
  async function renewed(times: number): Promise<void> {
    const earlier = new Map((await executors()).map((seen) => [seen.name, received(seen)]));
    await eventually(`each executor gets ${times} more SVIDs`, async () =>
      (await executors()).every((seen) => received(seen) >= (earlier.get(seen.name) ?? 0) + times),
    );
  }
  /** All of its jobs succeed, with every line in Gitea once and in order. */
  async function assertComplete(run: PushedRun): Promise<void> {
    for (const job of await run.jobs()) {
      const lines = (await run.log(job)).filter((line) => /^lines? \d+$/.test(line));
      assert.equal(job.conclusion, "success");
      const count = lines.length - 1;
      assert.ok(count > 0);
      const expected = [
        ...Array.from({ length: count }, (_, index) => `line ${index + 1}`),
        `lines ${count}`,
      ];
      assert.deepEqual(lines, expected);
    }
    await eventually(
      "nothing of it is left",
      async () => (await readdir(`${state()}/executors`)).length === 0,
    );
    assert.deepEqual(await ours(), []);
  }
  /** The facade's SVID, as the controller gets it. */
  async function facadeSource() {
    const client = createWorkloadClient({ kind: "unix", path: spire().agentSocket });
    const source = await openX509Source(
      {
        client,
        expectedId: facadeId,
        clock: systemClock,
        random: Math.random,
        log: createRecordingLogger(),
        readyTimeoutMs: 10_000,
      },
      signal,
    );
    return {
      until: (what: string, fits: (svid: X509Svid) => boolean) =>
        eventually(what, () => fits(source.current())),
      current: () => source.current(),
      [Symbol.asyncDispose]: async () => {
        await source.close();
        client[Symbol.dispose]();
      },
    };
  }

  it("B-91 a job runs as itself: its steps get JWT-SVIDs of the job, and nobody else does", async () => {
    const gate = path.join(gates, "identity");
    const run = await real.push(
      "identity",
      `
on: push
jobs:
  build:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          spire-agent api fetch jwt -audience registry.example -output json \\
            -socketPath "\${SPIFFE_ENDPOINT_SOCKET#unix://}" > answer.json
          node -e '
            const [{ svids }] = JSON.parse(require("node:fs").readFileSync("answer.json", "utf8"));
            for (const { spiffe_id, svid } of svids) {
              const { sub, aud } = JSON.parse(Buffer.from(svid.split(".")[1], "base64url"));
              console.log("identity", spiffe_id, sub, [aud].flat().join());
            }'
          until [ -e ${gate} ]; do sleep 0.1; done
`,
    );
    await claimed(1);
    const [executor] = await executors();
    assert.ok(executor !== undefined);
    const job = `spiffe://${trustDomain}/ci/demo/identity/build`;
    const [program = ""] = await readdir(`${state()}/program`);
    const agent = `${state()}/program/${program}/bin/spire-agent`;
    const fetchAs = (uid: number, ...more: readonly string[]) =>
      runAs(uid, agent, ["api", "fetch", ...more, "-socketPath", spire().agentSocket]);
    const jwt = ["jwt", "-audience", "registry.example"];
    assert.match((await fetchAs(executor.uid, ...jwt)).stdout, new RegExp(`^token\\(${job}\\):`));
    for (const what of [jwt, ["x509"]]) {
      const { code, stdout, stderr } = await fetchAs(strangerUid, ...what);
      assert.deepEqual([code, stdout], [1, ""]);
      assert.match(stderr, /PermissionDenied desc = no identity issued/);
    }
    // Root has the facade's identity, but not the job's.
    assert.match((await fetchAs(0, ...jwt)).stdout, new RegExp(`^token\\(${facadeId}\\):`));
    assert.match((await fetchAs(0, ...jwt, "-spiffeID", job)).stderr, /PermissionDenied/);

    await openGate("identity");
    const [build] = await run.jobs();
    assert.equal(build?.conclusion, "success");
    const shown = (await run.log(build)).filter((line) => line.startsWith("identity "));
    assert.deepEqual(shown, [`identity ${job} ${job} registry.example`]);
    // The image's check ran, and before the claim.
    assert.ok(!executor.lines.some(({ msg }) => msg === "image has no gitea-job-started"));
  });

  it("B-91 gitea-job-started gives up in time on an agent that does not know the caller", async () => {
    const [program = ""] = await readdir(`${state()}/program`);
    const environment = {
      PATH: `${state()}/program/${program}/bin:/usr/bin:/bin`,
      SPIFFE_ENDPOINT_SOCKET: `unix://${spire().agentSocket}`,
      CI_JOB_READY_TIMEOUT_SECONDS: "2",
    };
    const staged = `${state()}/program/${program}/bin/gitea-job-started`;
    const { code, stderr } = await runAs(strangerUid, staged, [], environment);
    assert.equal(code, 1);
    assert.match(stderr, /^gitea-job-started: no identity came from .* within 2 s: .*PermissionDenied/);
  });

  it("B-91 an agent that comes late is waited for, by gitea-job-started and by the whole job", async () => {
    await spire().agent().stop();
    const environment = {
      PATH: `${path.dirname(spire().peers.spireAgent.binary)}:/usr/bin:/bin`,
      SPIFFE_ENDPOINT_SOCKET: `unix://${spire().agentSocket}`,
      CI_SPIFFE_ID: facadeId,
    };
    const waiting = runAs(0, script, [], environment);
    const run = await real.push("late", printing("late"));
    await eventually("the executor runs", async () =>
      (await executors()).some(({ lines }) => lines.some(({ msg }) => msg === "no new x509-svid")),
    );
    await spire().startAgent(signal);
    assert.deepEqual(await waiting, { code: 0, stdout: "", stderr: "" });
    await claimed(1);
    await openGate("late");
    await assertComplete(run);
  });

  it("SVIDs are replaced every few seconds under load: no report is lost, no call fails for good", async () => {
    const run = await running("load", 3);
    await renewed(3);
    await openGate("load");
    await assertComplete(run);
    const errors = real.lines.filter(({ level }) => level === "error" || level === "fatal");
    assert.deepEqual(errors, []);
  });

  it("the CA is replaced while jobs run", async () => {
    const run = await running("new-ca", 2);
    await using facade = await facadeSource();
    const old = issuer(facade.current());
    const authority = await prepareX509Authority(server(), signal);
    await facade.until("both CAs are in the bundle", ({ bundlePem }) => bundlePem.length === 2);
    await activateX509Authority(server(), authority, signal);
    await facade.until("the new CA signs", (svid) => issuer(svid) !== old);
    // By then every executor has an SVID of the new CA.
    await renewed(2);
    // A job that begins now has never seen the old one.
    const next = await real.push("after-new-ca", printing("new-ca"));
    await next.jobs((jobs) => jobs.some(({ status }) => status !== "queued" && status !== "waiting"));
    await openGate("new-ca");
    assert.equal((await next.jobs())[0]?.conclusion, "success");
    await assertComplete(run);
  });

  it("the agent is killed and comes back while a job runs", async () => {
    const run = await running("agent-killed");
    spire().agent().signal("SIGKILL");
    await spire().agent().exited;
    await eventually("the executor has noticed", async () =>
      (await executors()).every(({ lines }) => lines.at(-1)?.msg === "no new x509-svid"),
    );
    await spire().startAgent(signal);
    await renewed(1);
    await openGate("agent-killed");
    await assertComplete(run);
  });

  it("the entry is removed while a job runs: its last SVID serves, and the job ends properly", async () => {
    const run = await running("no-entry");
    for (const { id } of await ours()) await entries().remove(id, signal);
    await eventually("the executor is refused", async () =>
      (await executors()).every(
        ({ lines }) =>
          lines.at(-1)?.msg === "no new x509-svid" &&
          /permission_denied/.test(String(lines.at(-1)?.["problem"])),
      ),
    );
    await openGate("no-entry");
    await assertComplete(run);
  });

  it("I5 a controller sweeps entries that one before it left, and no others", async () => {
    const { serverSocket, parentId } = spire();
    assert.ok(serverSocket.startsWith(real.platform.folder));
    const owner = real.platform.environment["GITEA_RUNNER_UUID"] ?? "";
    const left = (id: string, uid: number) => ({
      id,
      spiffeId: parseSpiffeId(`spiffe://${trustDomain}/ci/demo/old/build`),
      parentId,
      selectors: [`unix:uid:${uid}`],
    });
    await entries().create(left(`ci.${owner}.pod.gitea-task-99-1-0123abcd`, 60_601), signal);
    await entries().create(left("ci.somebody-else.pod.gitea-task-99-1-0123abcd", 60_602), signal);
    await real.platform.restartController(AbortSignal.timeout(60_000));
    await real.line(({ msg }) => msg === "registration without executor removed");
    assert.deepEqual((await entries().below(parentId, signal)).map(({ id }) => id).toSorted(), [
      "ci.somebody-else.pod.gitea-task-99-1-0123abcd",
      "facade",
    ]);
  });
});

/** Which CA has signed it. */
function issuer({ certificatePem, bundlePem }: X509Svid): string | undefined {
  const leaf = new X509Certificate(certificatePem);
  return bundlePem.find((pem) => {
    const ca = new X509Certificate(pem);
    return leaf.checkIssued(ca) && leaf.verify(ca.publicKey);
  });
}
