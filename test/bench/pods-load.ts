import { setTimeout as delay } from "node:timers/promises";
import { difference } from "./pods-calls.ts";
import { type BenchController, loadNow, type PodsBench } from "./pods-cluster.ts";
import { memorySignal, memoryTold, processFigures } from "./pods-process.ts";

/** Memory, processor time and calls of a controller while nothing new happens. */
export async function tellLoad(
  what: string,
  { api, gitea }: PodsBench,
  { process, lines, line }: BenchController,
  minutes: number,
): Promise<void> {
  const [calls, giteaCalls] = [api.calls.total(), gitea.calls.total()];
  const before = await processFigures(process.pid);
  await delay(minutes * 60_000);
  const after = await processFigures(process.pid);
  const cpu = (after.cpuSeconds - before.cpuSeconds) / minutes;
  console.log(`| ${what}, ${minutes} min: RSS | ${before.rssMb.toFixed(1)} → ${after.rssMb.toFixed(1)} MB |`);
  console.log(`| the most RSS since its start | ${after.peakMb.toFixed(1)} MB |`);
  const known = lines.length;
  process.signal(memorySignal);
  const kept = await line((one) => one.msg === memoryTold && lines.indexOf(one) >= known);
  const mb = (field: string) => (Number(kept[field]) / 1e6).toFixed(1);
  console.log(`| after garbage collection: RSS | ${mb("rss")} MB |`);
  console.log(`| of that, heap and buffers | ${mb("heapUsed")} + ${mb("external")} MB |`);
  console.log(`| processor time | ${cpu.toFixed(2)} s a minute |`);
  console.log(`| API calls a minute | ${difference(calls, api.calls.total(), minutes)} |`);
  console.log(`| calls to Gitea a minute | ${difference(giteaCalls, gitea.calls.total(), minutes)} |`);
  console.log(loadNow());
}
