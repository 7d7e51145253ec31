import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "mocha";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import {
  activateX509Authority,
  prepareX509Authority,
} from "../../scripts/peers/spire-api/local-authority.ts";
import { facadeId, trustDomain } from "../../scripts/quick-start/identities.ts";
import { canGiveUids } from "../controller/backends/local/if-root.ts";
import { eventually } from "../support/eventually.ts";
import { usePlatform } from "../support/platform.ts";
import type { PushedRun } from "../support/push-run.ts";
import { usePrintingJobs } from "../support/printing-jobs.ts";
import { issuerOf, spireOf } from "../support/real-spire.ts";
import { runAs } from "../support/run-as.ts";

const { signal } = new AbortController();
const script = path.join(import.meta.dirname, "../../scripts/gitea-job-started");
/** Has no entry. */
const strangerUid = 60_599;

describe("jobs with identities of real SPIRE", () => {
  if (!canGiveUids("jobs with identities of real SPIRE")) return;
  // SVIDs begin ten seconds before they are made, and are renewed at half of their life: every two seconds.
  const real = usePlatform({ spire: { svidTtlSeconds: 14 } });
  const { spire, server, entries, ours, agentProgram, facadeSource } = spireOf(real);
  const printing = usePrintingJobs(real);
  const { gate, workflow, running, claimed, openGate, executors, renewed } = printing;
  const assertComplete = async (run: PushedRun) => {
    await printing.assertComplete(run);
    assert.deepEqual(await ours(), []);
  };

  it("B-91 a job runs as itself: its steps get JWT-SVIDs of the job, and nobody else does", async () => {
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
          until [ -e ${gate("identity")} ]; do sleep 0.1; done
`,
    );
    await claimed(1);
    const [executor] = await executors();
    assert.ok(executor !== undefined);
    const job = `spiffe://${trustDomain}/ci/demo/identity/build`;
    const agent = await agentProgram();
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
    const programs = path.dirname(await agentProgram());
    const environment = {
      PATH: `${programs}:/usr/bin:/bin`,
      SPIFFE_ENDPOINT_SOCKET: `unix://${spire().agentSocket}`,
      CI_JOB_READY_TIMEOUT_SECONDS: "10",
    };
    const staged = path.join(programs, "gitea-job-started");
    const { code, stderr } = await runAs(strangerUid, staged, [], environment);
    assert.equal(code, 1);
    assert.match(stderr, /^gitea-job-started: no identity came from .* within 10 s: .*PermissionDenied/);
  });

  it("B-91 an agent that comes late is waited for, by gitea-job-started and by the whole job", async () => {
    await spire().agent().stop();
    const environment = {
      PATH: `${path.dirname(spire().peers.spireAgent.binary)}:/usr/bin:/bin`,
      SPIFFE_ENDPOINT_SOCKET: `unix://${spire().agentSocket}`,
      CI_SPIFFE_ID: facadeId,
    };
    const waiting = runAs(0, script, [], environment);
    const run = await real.push("late", workflow("late"));
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
    const run = await running("load", { count: 3 });
    await renewed(3);
    await openGate("load");
    await assertComplete(run);
    const errors = real.lines.filter(({ level }) => level === "error" || level === "fatal");
    assert.deepEqual(errors, []);
  });

  it("the CA is replaced while jobs run", async () => {
    const run = await running("new-ca", { count: 2 });
    await using facade = await facadeSource();
    const old = issuerOf(facade.current());
    const authority = await prepareX509Authority(server(), signal);
    await facade.until("both CAs are in the bundle", ({ bundlePem }) => bundlePem.length === 2);
    await activateX509Authority(server(), authority, signal);
    await facade.until("the new CA signs", (svid) => issuerOf(svid) !== old);
    // By then every executor has an SVID of the new CA.
    await renewed(2);
    // A job that begins now has never seen the old one.
    const next = await real.push("after-new-ca", workflow("new-ca"));
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
    await real.platform.restartController(AbortSignal.timeout(180_000));
    await real.line(({ msg }) => msg === "registration without executor removed");
    assert.deepEqual((await entries().below(parentId, signal)).map(({ id }) => id).toSorted(), [
      "ci.somebody-else.pod.gitea-task-99-1-0123abcd",
      "facade",
    ]);
  });
});
