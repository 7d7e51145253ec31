import { startContest } from "./contest.ts";
import { medianSeconds, summary } from "./figures.ts";

// How long a job takes that prints 200,000 lines of 70 bytes, from the push to its end in Gitea.
const runs = 3;
const lines = 200_000;
const line = "0123456789".repeat(7);
const print = `awk 'BEGIN { for (n = 0; n < ${lines}; n++) print "${line}" }'`;

await using contest = await startContest();
const times = contest.contestants.map((): number[] => []);
for (let round = 0; round < runs; round++)
  for (const [index, contestant] of contest.contestants.entries())
    times[index]?.push(await contestant.run(`      - run: ${print}\n`));
for (const [index, { name }] of contest.contestants.entries())
  console.log(`${name}: ${summary(times[index] ?? [])} s for ${lines} lines, ${runs} runs`);
const [ours, theirs] = times.map((values) => medianSeconds(values));
console.log(`ratio of the medians: ${((ours ?? NaN) / (theirs ?? NaN)).toFixed(2)}`);
