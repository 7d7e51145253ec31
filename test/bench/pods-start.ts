import { difference } from "./pods-calls.ts";
import { loadNow, startPodsBench, tellMachine } from "./pods-cluster.ts";
import { createWorkflows, type StartTimes, tellStarts, timeJob } from "./pods-job.ts";

// How long a job takes to start on a real cluster, phase by phase, and what it costs the API server.
const jobs = Number(process.argv[2] ?? 20);

tellMachine();
await using bench = await startPodsBench({ capacity: 2 });
const controller = await bench.start();
const repository = await createWorkflows(bench);
// Files and caches that only the first one finds cold.
tellStarts([await timeJob(bench, controller, repository)]);
console.log(`the above is the first job; those after it, ${jobs}, one by one, ${loadNow()}`);
const before = bench.api.calls.total();
const giteaBefore = bench.gitea.calls.total();
const begun = performance.now();
const starts: StartTimes[] = [];
for (let job = 0; job < jobs; job++) starts.push(await timeJob(bench, controller, repository));
tellStarts(starts);
const seconds = (performance.now() - begun) / 1000;
console.log(`API calls for each job: ${difference(before, bench.api.calls.total(), jobs)}`);
console.log(`calls to Gitea for each job: ${difference(giteaBefore, bench.gitea.calls.total(), jobs)}`);
console.log(`${jobs} jobs in ${seconds.toFixed(1)} s, ${loadNow()}`);
