import { type BenchController, loadNow, startPodsBench, tellMachine } from "./pods-cluster.ts";
import { createWorkflows, type StartTimes, tellStarts, timeJob } from "./pods-job.ts";
import { tellLoad } from "./pods-load.ts";

// Whether it matters that the namespace is full of other people's Pods.
const wanted = Number(process.argv[2] ?? 10_000);
const jobs = Number(process.argv[3] ?? 5);
const atOnce = 16;
const createMs = 4 * 60_000;

tellMachine();
await using bench = await startPodsBench({ capacity: 2 });
const repository = await createWorkflows(bench);
let controller = await bench.start();
await timeJob(bench, controller, repository);
await restart("no foreign Pod");
await timeJob(bench, controller, repository);
await tellAll("no foreign Pod");
const count = await createForeign();
await tellAll(`${count} foreign Pods, made beside the running controller`);
await restart(`${count} foreign Pods`);
await timeJob(bench, controller, repository);
await tellAll(`${count} foreign Pods, there at the start`);

async function tellAll(beside: string): Promise<void> {
  const starts: StartTimes[] = [];
  for (let job = 0; job < jobs; job++) starts.push(await timeJob(bench, controller, repository));
  console.log(`${jobs} jobs one by one beside ${beside}, ${loadNow()}`);
  tellStarts(starts);
  await tellLoad(beside, bench, controller, 1);
}

async function restart(beside: string): Promise<void> {
  const times: string[] = [];
  for (let start = 0; start < 3; start++) {
    await controller.process.stop();
    const again: BenchController = await bench.start();
    controller = again;
    times.push((again.startMs / 1000).toFixed(2));
  }
  console.log(`| process started → leads and serves, ${beside} | ${times.join(", ")} s | ${loadNow()}`);
}

/** Pods without our label that no scheduler places. As many as there is time for. */
async function createForeign(): Promise<number> {
  const begun = performance.now();
  let begunCount = 0;
  const spec = {
    schedulingGates: [{ name: "bench/never" }],
    containers: [{ name: "one", image: "none.example/none:1" }],
  };
  const create = async () => {
    while (begunCount < wanted && performance.now() - begun < createMs) {
      const name = `foreign-${++begunCount}`;
      const body = { apiVersion: "v1", kind: "Pod", metadata: { name, labels: { app: "other" } }, spec };
      const path = `/api/v1/namespaces/${bench.tenant.namespace}/pods`;
      await bench.seen.api.call({ method: "POST", path, body }, AbortSignal.timeout(30_000));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, create));
  console.log(
    `${begunCount} Pods made in ${((performance.now() - begun) / 1000).toFixed(1)} s, ${loadNow()}`,
  );
  return begunCount;
}
