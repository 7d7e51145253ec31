import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { LeaseLostError } from "../../controller/lifecycle/lead.ts";
import { useControllerPeers } from "../support/controller-peers.ts";
import { eventually } from "../support/eventually.ts";
import { shortLease, useReplicas } from "../support/replicas.ts";

describe("two controllers of a Deployment", function () {
  this.timeout(180_000);
  const peers = useControllerPeers();
  const deploy = useReplicas(peers);

  /** The first one leads, the second one waits for its turn. */
  async function twoReplicas(...times: Parameters<typeof deploy>) {
    const deployment = await deploy(...times);
    const first = await deployment.start("controller-a");
    await eventually("the first one listens", () => first.listens());
    const second = await deployment.start("controller-b");
    await eventually("the second one waits", () =>
      second.log.lines.some(({ message }) => message.startsWith("another controller leads")),
    );
    return { deployment, first, second };
  }

  it("B-24 lead one at a time; the one that waits is alive, ready and well, and nobody's facade", async () => {
    const { deployment, first, second } = await twoReplicas();
    assert.match(deployment.holder(), /^controller-a_[0-9a-f-]{36}$/);
    assert.equal(await deployment.leader(), deployment.holder());
    for (const page of ["livez", "readyz", "healthz"])
      assert.deepEqual(await second.pages.page(page), { status: 200, text: "ok\n" }, page);
    assert.deepEqual(
      [await first.pages.metric("runners_leader"), await second.pages.metric("runners_leader")],
      [1, 0],
    );
    assert.equal(await second.pages.metric("runners_nats_connected"), 1);
    assert.equal(await second.pages.metric('runners_slots_capacity{backend="pod"}'), undefined);
    assert.equal(await second.listens(), false);
    assert.deepEqual(second.backend.calls, []);

    second.stop();
    assert.match(String(await second.ended), /SIGTERM/);
    assert.equal(await first.listens(), true);
    assert.match(deployment.holder(), /^controller-a_/);
  });

  it("B-24 hand over at once when the leader ends in order", async () => {
    // One that was not released would be waited for for ever, as far as a test goes.
    const { deployment, first, second } = await twoReplicas();
    const job = peers.gitea.addJob({ runsOn: ["self-hosted", "pod"] });
    await eventually("the job has an executor", () => first.backend.called("create").length > 0);
    first.stop();
    assert.equal(await first.ended, "done");
    await eventually("the second one listens", () => second.listens());
    assert.match(deployment.holder(), /^controller-b_/);
    assert.equal(await deployment.leader(), deployment.holder());
    assert.ok(second.log.lines.some(({ message }) => message === "recovered"));
    assert.equal(peers.gitea.shown(job).job, "in_progress");
  });

  it("let the one that has lost the Lease serve on until the other one leads, and never lead again", async () => {
    const { deployment, first, second } = await twoReplicas(shortLease);
    second.stop();
    await second.ended;
    first.setApiAway(true);
    await eventually(
      "the first one has lost it",
      async () => (await first.pages.metric("runners_leader")) === 0,
    );
    assert.equal(await first.listens(), true);
    assert.equal((await first.pages.page("livez")).status, 200);
    assert.match((await first.pages.page("healthz")).text, /^lease: nothing is begun, ended or decided here/);

    const third = await deployment.start("controller-c");
    await eventually("another one listens", () => third.listens());
    const end = await first.ended;
    assert.ok(end instanceof LeaseLostError, String(end));
    assert.equal(await first.listens(), false);
    assert.match(deployment.holder(), /^controller-c_/);
    const declared = first.log.lines.filter(({ message }) => message === "declared to gitea").length;
    assert.equal(declared, 1);
  });

  it("need no other sign than that the API server is back: who has lost the Lease ends, and the next one leads", async () => {
    const deployment = await deploy(shortLease);
    const first = await deployment.start("controller-a");
    await eventually("it listens", () => first.listens());
    deployment.kubernetes.setAway(true);
    await eventually("it has lost it", async () => (await first.pages.metric("runners_leader")) === 0);
    const second = await deployment.start("controller-b");
    await eventually("the second one waits for it", () =>
      second.log.lines.some(({ message }) =>
        message.startsWith("asking the API server what is allowed failed"),
      ),
    );
    assert.match((await second.pages.page("healthz")).text, /^start: it waits for the API server$/m);
    assert.equal(await first.listens(), true);
    deployment.kubernetes.setAway(false);
    assert.ok((await first.ended) instanceof LeaseLostError);
    await eventually("the second one leads", () => second.listens());
  });

  it("end at their start, with all that they are not allowed, for an operator to see", async () => {
    const deployment = await deploy();
    deployment.kubernetes.deny({ resource: "leases", verb: "update" });
    deployment.kubernetes.deny({ resource: "pods", verb: "delete" });
    const first = await deployment.start("controller-a");
    const end = String(await first.ended);
    assert.match(
      end,
      /^ConfigError: .*update.*leases.*agree on a leader.*; .*delete.*pods.*remove executors/,
    );
  });

  it("wait for NATS with a Lease as without, and are alive", async () => {
    const deployment = await deploy();
    await peers.nats.stop();
    const first = await deployment.start("controller-a");
    await eventually("it waits", () =>
      first.log.lines.some(({ message }) => message === "nats is not reachable, waiting for it"),
    );
    assert.equal((await first.pages.page("livez")).status, 200);
    assert.equal(deployment.kubernetes.get("Lease", "dynamic-runner-scheduler"), undefined);
    await peers.nats.start();
    await eventually("it leads", () => first.listens());
  });
});
