import { builtExecutor } from "../support/images/executor-of.ts";
import { openImages } from "../support/images/use-images.ts";
import { summary } from "./figures.ts";
import { loadNow, startPodsBench, tellMachine } from "./pods-cluster.ts";
import { createWorkflows, type StartTimes, timeJob } from "./pods-job.ts";

// From the start of the container to the claim on a real cluster, in the image that is built of these sources, with its Docker; with
// `plain` in the one of the tests, which is put together in a moment and has no Docker.
const jobs = Number(process.argv[2] ?? 10);
const plain = process.argv[3] === "plain";

tellMachine();
const signal = AbortSignal.timeout(30 * 60_000);
await using images = plain ? undefined : await openImages(signal);
const executor = images === undefined ? {} : { executor: () => builtExecutor(images, signal) };
await using bench = await startPodsBench({ capacity: 2, ...executor });
const controller = await bench.start();
const repository = await createWorkflows(bench);
// The first one finds files and caches cold.
await timeJob(bench, controller, repository);
const starts: StartTimes[] = [];
for (let job = 0; job < jobs; job++) starts.push(await timeJob(bench, controller, repository));

const waits = ({ asked, svid }: StartTimes) => svid - asked;
const all = ({ begun, claimed }: StartTimes) => claimed - begun;
const rows: Readonly<Record<string, (times: StartTimes) => number>> = {
  "the container's first process → the SVID is asked for": ({ begun, asked }) => asked - begun,
  "→ it is there": waits,
  "→ the facade is reached": ({ svid, reached }) => reached - svid,
  "beside that: → what the job needs is ready": ({ readyMs }) => readyMs,
  "of that, the start of dockerd → it is ready": ({ dockerdMs }) => dockerdMs,
  "the first process → the claim": all,
  "of that neither the SVID nor the job's Docker is waited for; goal 500 ms": (times) =>
    all(times) - waits(times) - times.readyMs,
};
console.log("| from → to | seconds |\n| --- | --- |");
for (const [row, of] of Object.entries(rows)) {
  const figures = starts.map(of);
  console.log(`| ${row} | ${figures.some(Number.isNaN) ? "not measured" : summary(figures)} |`);
}
console.log(`${jobs} jobs, one by one, ${loadNow()}`);
