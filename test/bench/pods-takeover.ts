import { systemClock } from "../../controller/platform/clock.ts";
import { failPointMessage, formatFailPoint } from "../support/chaos/fail-point.ts";
import { eventually } from "../support/eventually.ts";
import { summary } from "./figures.ts";
import { type BenchController, loadNow, startPodsBench, tellMachine } from "./pods-cluster.ts";
import { createWorkflows, dispatch, untilSuccess } from "./pods-job.ts";

// How soon after the end of a leader that is killed the next one makes a job's Pod, by where the job was then.
const rounds = Number(process.argv[2] ?? 3);
const takeoverMs = 150_000;
const standby = /"msg":"another controller leads, waiting for its Lease"/;
const failPoints = import.meta.resolve("../support/fail-points.ts");

type Place = {
  readonly where: string;
  /** Until the Pod is there, in each round. */
  readonly mostSeconds: number;
  /** Variables of the leader that differ; the next one has two slots. */
  readonly leader: Readonly<Record<string, string>>;
  /** Has the leader killed; resolves when it has ended, to when it had, and to the runs that are to succeed. */
  readonly kill: (
    leader: BenchController,
  ) => Promise<{ readonly at: number; readonly runs: readonly number[] }>;
};

tellMachine();
await using bench = await startPodsBench({ capacity: 2 });
const repository = await createWorkflows(bench);
const ended = async ({ process }: BenchController) => {
  await process.exited;
  return systemClock.now();
};
const killed = (leader: BenchController) => {
  leader.process.signal("SIGKILL");
  return ended(leader);
};

const places: readonly Place[] = [
  {
    where: "comes to Gitea while nobody leads",
    mostSeconds: 45,
    leader: {},
    kill: async (leader) => {
      const at = await killed(leader);
      return { at, runs: [await dispatch(bench, repository, "single")] };
    },
  },
  {
    where: "waits in the queue for a slot",
    mostSeconds: 45,
    leader: { POD_CAPACITY: "1" },
    kill: async (leader) => {
      const long = await dispatch(bench, repository, "long");
      const { assignment } = await leader.line(({ event }) => event === "acked", takeoverMs);
      const single = await dispatch(bench, repository, "single");
      await leader.line((line) => line.msg === "task stored" && line["assignment"] !== assignment);
      return { at: await killed(leader), runs: [long, single] };
    },
  },
  {
    where: "is in the hand of the leader, which was about to make its Pod",
    mostSeconds: 75,
    leader: {
      NODE_OPTIONS: `--import=${failPoints}`,
      FAIL_POINT: formatFailPoint({ name: "executor_create", nth: 1, when: "before" }),
    },
    kill: async (leader) => {
      const run = await dispatch(bench, repository, "single");
      await leader.line(({ msg }) => msg === failPointMessage, takeoverMs);
      return { at: await ended(leader), runs: [run] };
    },
  },
];

for (const place of places) {
  const times: { readonly leads: number; readonly created: number }[] = [];
  for (let round = 0; round < rounds; round++) times.push(await timeTakeover(place));
  const created = times.map((time) => time.created);
  console.log(`a job that ${place.where}, ${rounds} times, ${loadNow()}`);
  console.log(`| the leader is dead → the next one leads | ${summary(times.map(({ leads }) => leads))} s |`);
  console.log(`| → a watch shows the Pod | ${summary(created)} s |`);
  if (Math.max(...created) <= place.mostSeconds * 1000) continue;
  console.log(`that is more than ${place.mostSeconds} s`);
  process.exitCode = 1;
}

/** Both from the end of the leader on, in milliseconds. */
async function timeTakeover({ leader: changed, kill }: Place) {
  const leader = await bench.start({ changed });
  const next = await bench.start({ place: 1, ready: standby });
  const { at, runs } = await kill(leader);
  const { time } = await next.line(({ msg }) => msg === "runner started", takeoverMs);
  const { executor } = await next.line(({ event }) => event === "executor_created", takeoverMs);
  const pod = String(executor);
  await eventually(`${pod} is seen`, () => bench.seen.times.has(pod));
  for (const run of runs) await untilSuccess(bench, repository, run);
  await eventually("all Pods are gone", () => bench.seen.pods.size === 0, takeoverMs);
  await next.process.stop();
  const created = bench.seen.times.get(pod)?.created ?? NaN;
  return { leads: Date.parse(String(time)) - at, created: created - at };
}
