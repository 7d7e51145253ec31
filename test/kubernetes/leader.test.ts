import assert from "node:assert/strict";
import { afterEach, before, describe, it } from "mocha";
import * as z from "zod";
import { freePort } from "../../scripts/peers/free-port.ts";
import { controllerServiceAccount, executorNamespace } from "../../scripts/peers/cluster/objects.ts";
import { answersAt } from "../support/answers-at.ts";
import { useCluster } from "../support/cluster.ts";
import { type ControllerChild, startControllerChild } from "../support/controller-child.ts";
import { peersTrustDomain, useControllerPeers } from "../support/controller-peers.ts";
import { eventually } from "../support/eventually.ts";
import { healthPages, type HealthPages } from "../support/health-pages.ts";
import { grantRights } from "../support/kubernetes/controller-rights.ts";
import { makeStreamsFor } from "../support/streams-for.ts";

const { signal } = new AbortController();
const leasePath = `/apis/coordination.k8s.io/v1/namespaces/${executorNamespace}/leases/dynamic-runner-scheduler`;

/** For so long whoever has renewed it leads. */
const leaseMs = 15_000;
const leaseSchema = z.object({
  spec: z.object({
    holderIdentity: z.string().optional(),
    acquireTime: z.string().optional(),
    renewTime: z.string().optional(),
  }),
});

type Controller = {
  readonly child: ControllerChild;
  readonly pages: HealthPages;
  readonly facadePort: number;
};

describe("controllers that take turns by a Lease of the real Kubernetes", function () {
  this.timeout(400_000);
  const peers = useControllerPeers();
  const real = useCluster({ trustDomain: peersTrustDomain });
  const running: ControllerChild[] = [];
  let kubeconfig = "";

  before(async () => {
    const account = { namespace: executorNamespace, name: controllerServiceAccount };
    const places = { podNamespace: executorNamespace, controllerNamespace: executorNamespace };
    await grantRights(real.cluster.api, account, places, signal);
    kubeconfig = await real.cluster.kubeconfigFor(account, signal);
  });
  afterEach("end the controllers", async () => {
    real.cluster.components.apiServer.resume();
    for (const child of running.splice(0)) await child[Symbol.asyncDispose]();
    await real.cluster.api.remove(leasePath, signal);
  });

  async function deployment() {
    const common = {
      ...(await peers.environment()),
      KUBECONFIG: kubeconfig,
      CONTROLLER_NAMESPACE: executorNamespace,
      HOSTNAME: "controller",
      POD_EXECUTOR_IMAGE: real.cluster.executorImage,
      SPIRE_AGENT_ID: real.cluster.agentId,
    };
    await makeStreamsFor(common);
    return async (hostname: string): Promise<Controller> => {
      const facadePort = await freePort();
      const own = {
        ...common,
        HOSTNAME: hostname,
        RUNNER_FACADE_LISTEN: `127.0.0.1:${facadePort}`,
        HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
      };
      const child = startControllerChild(own);
      running.push(child);
      await child.line("runner is ready to lead");
      return { child, pages: healthPages(own), facadePort };
    };
  }

  /** One that leads and one that waits. */
  async function two() {
    const start = await deployment();
    const first = await start("controller-a");
    await first.child.line("declared to gitea");
    const second = await start("controller-b");
    await second.child.line("another controller leads, waiting for its Lease");
    return { first, second, start };
  }
  const lease = async () => {
    const { spec } = leaseSchema.parse(await real.cluster.api.read(leasePath, signal));
    const at = (time?: string) => Date.parse(time ?? "");
    return {
      holder: spec.holderIdentity ?? "",
      acquiredAt: at(spec.acquireTime),
      renewedAt: at(spec.renewTime),
    };
  };
  const holder = async () => (await lease()).holder;
  const leads = ({ pages }: Controller) => pages.metric("runners_leader").then((value) => value === 1);
  const listens = ({ facadePort }: Controller) => answersAt(facadePort);

  it("B-24 one leads, the other is alive, ready and well, and takes over at once when the first ends in order", async () => {
    const { first, second } = await two();
    assert.match(await holder(), /^controller-a_/);
    assert.deepEqual([await leads(first), await leads(second)], [true, false]);
    assert.deepEqual([await listens(first), await listens(second)], [true, false]);
    for (const name of ["livez", "readyz", "healthz"])
      assert.deepEqual(await second.pages.page(name), { status: 200, text: "ok\n" });
    first.child.signal("SIGTERM");
    assert.equal(await first.child.exited, 0);
    // Nobody has to wait until it is over.
    assert.match(await holder(), /^$|^controller-b_/);
    await eventually("the second one listens", () => listens(second));
    assert.match(await holder(), /^controller-b_/);
  });

  it("B-24 takes over from one that was killed when its Lease is over, and not before", async () => {
    const { first, second } = await two();
    first.child.signal("SIGKILL");
    await first.child.exited;
    const { holder: killed, renewedAt } = await lease();
    assert.match(killed, /^controller-a_/);
    await eventually("the second one listens", () => listens(second));
    const { holder: now, acquiredAt } = await lease();
    assert.match(now, /^controller-b_/);
    assert.ok(acquiredAt - renewedAt >= leaseMs, `${acquiredAt - renewedAt} ms`);
  });

  it("ends one that stood still as soon as it goes on, and it never leads again", async () => {
    const { first, second } = await two();
    first.child.signal("SIGSTOP");
    await eventually("the second one leads", () => leads(second));
    await eventually("the second one listens", () => listens(second));
    const earlier = first.child.lines().length;
    first.child.signal("SIGCONT");
    assert.equal(await first.child.exited, 1);
    const later = first.child.lines().slice(earlier);
    assert.deepEqual(
      later.filter(({ level }) => level === "error").map(({ msg }) => msg),
      ["this controller leads no more", "runner stopped"],
    );
    assert.match(later.at(-1)?.error ?? "", /^the Lease is lost: /);
    assert.ok(
      later.every(({ msg }) => !["declared to gitea", "task stored", "this controller leads"].includes(msg)),
    );
    assert.match(await holder(), /^controller-b_/);
  });

  it("goes on to serve executors while the API server hangs, ends when it is back, and one leads soon", async () => {
    const { first, second } = await two();
    const earlier = (await lease()).renewedAt;
    let renewedAt = earlier;
    // Right after a renewal, so that this is the last one.
    await eventually("it is renewed", async () => (renewedAt = (await lease()).renewedAt) > earlier);
    await real.cluster.components.apiServer.pause();
    const { time } = await first.child.line("this controller leads no more");
    // Before anybody else could take it.
    const ledForMs = Date.parse(time) - renewedAt;
    assert.ok(ledForMs < leaseMs, `${ledForMs} ms`);
    assert.deepEqual([await leads(first), await listens(first)], [false, true]);
    assert.equal((await first.pages.page("livez")).status, 200);
    assert.equal((await first.pages.page("readyz")).status, 200);
    assert.match(
      (await first.pages.page("healthz")).text,
      /^lease: nothing is begun, ended or decided here/m,
    );
    assert.equal((await second.pages.page("livez")).status, 200);
    assert.equal(await leads(second), false);
    real.cluster.components.apiServer.resume();
    assert.equal(await first.child.exited, 1);
    await eventually("the second one listens", () => listens(second));
    assert.match(await holder(), /^controller-b_/);
  });
});
