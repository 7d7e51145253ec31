import { setTimeout as delay } from "node:timers/promises";
import { startContest } from "./contest.ts";
import { medianSeconds, summary } from "./figures.ts";

// How long a trivial job takes from the push to its end in Gitea, on an idle system, beside the official daemon.
const runs = Number(process.env["BENCH_RUNS"] ?? 20);
const pauseMs = 5_000;

await using contest = await startContest();
const times = contest.contestants.map((): number[] => []);
for (let round = 0; round < runs; round++)
  for (const [index, contestant] of contest.contestants.entries()) {
    // Anywhere between two polls.
    await delay(Math.random() * pauseMs);
    times[index]?.push(await contestant.run("      - run: echo hello\n"));
  }
for (const [index, { name }] of contest.contestants.entries())
  console.log(`${name}: ${summary(times[index] ?? [])} s from push to done, ${runs} runs`);
const [ours, theirs] = times.map((values) => medianSeconds(values));
console.log(`ratio of the medians: ${((ours ?? NaN) / (theirs ?? NaN)).toFixed(2)}`);
