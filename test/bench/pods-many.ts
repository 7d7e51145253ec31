import { setTimeout as delay } from "node:timers/promises";
import { listObjects } from "../support/kubernetes/cluster-platform.ts";
import { loadNow, type PodsBench, startPodsBench, tellMachine } from "./pods-cluster.ts";
import {
  addRoomyNode,
  createFakeKubelet,
  fakeNode,
  fakeToleration,
  setCordoned,
} from "./pods-fake-kubelet.ts";
import { createWorkflows, dispatch, type StartTimes, tellStarts, timeJob } from "./pods-job.ts";
import { tellLoad } from "./pods-load.ts";

// What a controller costs that has many Pods, on a simulated node where nobody claims, and how long a real job takes to
// start beside them.
const wanted = Number(process.argv[2] ?? 500);
const minutes = Number(process.argv[3] ?? 2);
const jobs = Number(process.argv[4] ?? 5);
const fillMs = Number(process.argv[5] ?? 15) * 60_000;
/** So many jobs are dispatched at once: Gitea stores a run's jobs before it answers. */
const most = 100;
const waves = Array.from({ length: Math.ceil(wanted / most) }, (_, wave) =>
  Math.min(most, wanted - wave * most),
);
const soon = () => AbortSignal.timeout(10_000);

tellMachine();
const changed = {
  POD_TOLERATIONS: fakeToleration,
  // Nobody claims on the simulated node, and nobody is to be replaced or looked at again for it.
  RUNNER_TIMES: JSON.stringify({ startMs: 3_600_000, claimMs: 3_600_000 }),
};
const kubelet = createFakeKubelet(() => bench.seen.api, "ci-bench");
await using bench: PodsBench = await startPodsBench({ capacity: wanted + 1, changed }, (pod) =>
  kubelet.onPod(pod),
);
const { kubernetes } = bench.platform;
let controller = await bench.start();
const repository = await createWorkflows(bench, [...new Set(waves)]);
await timeJob(bench, controller, repository);
await tellLoad("no Pod", bench, controller, minutes / 4);
await tellJobs("no other Pod");

await addRoomyNode(kubernetes, wanted + 10, soon());
await setCordoned(kubernetes, kubernetes.nodeName, true, soon());
// All of them wait when the controller starts: what comes and what is fetched would hold each other up.
await controller.process.stop();
for (const wave of waves) await dispatch(bench, repository, String(wave));
const begun = performance.now();
controller = await bench.start();
while (kubelet.running() < wanted && performance.now() - begun < fillMs) {
  // One that cannot renew its Lease for 10 s, on a machine that has no time for it, ends; in a Deployment it comes back.
  const ended = await Promise.race([delay(500, undefined), controller.process.exited]);
  if (ended !== undefined) throw new Error(`the controller ended with ${ended}`);
}
const seconds = (performance.now() - begun) / 1000;
const stored = controller.lines.filter(({ msg }) => msg === "task stored").length;
console.log(
  `${stored} tasks are stored and ${kubelet.running()} Pods of ${wanted} run ${seconds.toFixed(1)} s after the controller's start, ${loadNow()}`,
);
const entries = await listObjects(kubernetes, "/apis/spire.spiffe.io/v1alpha1/clusterstaticentries");
console.log(`${entries.length} registration entries`);
await delay(20_000);
await tellLoad(`${kubelet.running()} Pods`, bench, controller, minutes);
await setCordoned(kubernetes, fakeNode, true, soon());
await setCordoned(kubernetes, kubernetes.nodeName, false, soon());
await tellJobs(`${kubelet.running()} other Pods`);

async function tellJobs(beside: string): Promise<void> {
  const starts: StartTimes[] = [];
  for (let job = 0; job < jobs; job++) starts.push(await timeJob(bench, controller, repository));
  console.log(`${jobs} jobs one by one beside ${beside}, ${loadNow()}`);
  tellStarts(starts);
}
