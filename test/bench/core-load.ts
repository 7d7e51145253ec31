import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "../../controller/platform/clock.ts";
import { connectNats } from "../../controller/platform/nats-connection.ts";
import { startNats } from "../../scripts/peers/start-nats.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { countRequests } from "./core-requests.ts";
import type { Restarted } from "./core-restart.ts";
import { summary } from "./figures.ts";
import { storeWorld, type StoredWorld } from "./stored-world.ts";

// What the core costs with many assignments: its restart, its memory, its requests to Gitea.
const restarts = 5;
/** Long enough for some rounds of every loop of the core, but for those of minutes. */
const settleMs = 40_000;
const setUpMs = 10 * 60_000;

await using stack = new AsyncDisposableStack();
const folder = await mkdtemp(path.join(tmpdir(), "bench-core-"));
stack.defer(() => rm(folder, { recursive: true, maxRetries: 5 }));
const nats = stack.use(await startNats({ folder }, AbortSignal.timeout(setUpMs)));
const { url, user, password } = nats;
const log = createRecordingLogger();
const link = await connectNats(
  { url, user, password, clock: systemClock, log },
  AbortSignal.timeout(setUpMs),
);
stack.defer(() => link.close());

console.log(`Node ${process.version}, ${cpus().length} cores, load ${loadavg()[0]?.toFixed(1)}`);
await tellRestart({ stream: "RESTART", claimed: 500, queued: 500 });
await tellMemory();
for (const load of [
  { running: 0, queued: 0 },
  { running: 1, queued: 40 },
  { running: 500, queued: 0 },
]) {
  const counts = await countRequests(load);
  const each = [...counts].map(([name, count]) => `${name} ${count.toFixed(1)}`).join(", ");
  console.log(`| requests a minute, ${load.running} running and ${load.queued} queued | ${each} |`);
}
console.log(`load ${loadavg()[0]?.toFixed(1)}`);

async function tellRestart(world: StoredWorld): Promise<void> {
  const taskBytes = await storeWorld(link, world);
  const found: Restarted[] = [];
  for (let run = 0; run < restarts; run++) found.push(await restart(world, 0));
  const what = `${world.claimed} executors and ${world.queued} queued, tasks of ${taskBytes} bytes`;
  console.log(`| ${what}: loaded and connected | ${summary(found.map(({ loadedMs }) => loadedMs))} s |`);
  console.log(`| recovered | ${summary(found.map(({ recoveredMs }) => recoveredMs))} s |`);
  console.log(`| first answer | ${summary(found.map(({ answeredMs }) => answeredMs))} s |`);
}

/** One executor always runs, so that the pool is full and those that wait go on waiting. */
async function tellMemory(): Promise<void> {
  const worlds = [
    { stream: "BASE", claimed: 1, queued: 0 },
    { stream: "QUEUED_500", claimed: 1, queued: 500, over: "BASE" },
    { stream: "QUEUED_1000", claimed: 1, queued: 1000, over: "QUEUED_500" },
    { stream: "CLAIMED_500", claimed: 501, queued: 0, over: "BASE" },
    { stream: "CLAIMED_1000", claimed: 1001, queued: 0, over: "CLAIMED_500" },
  ];
  const held = new Map<string, number>();
  for (const { over = "", ...world } of worlds) {
    const taskBytes = await storeWorld(link, world);
    const { bytes } = await restart(world, settleMs);
    held.set(world.stream, bytes);
    const before = held.get(over);
    const each = before === undefined ? "" : `, ${Math.round((bytes - before) / 500)} each over ${over}`;
    console.log(`| memory of ${world.stream}, tasks of ${taskBytes} bytes | ${bytes} bytes${each} |`);
  }
}

/** A controller's core in a process of its own, on what is stored. */
async function restart({ stream, claimed, queued }: StoredWorld, settle: number): Promise<Restarted> {
  const child = fork(
    path.join(import.meta.dirname, "core-restart.ts"),
    [url, nats.passwordFile, stream, String(settle)],
    { execArgv: ["--expose-gc"] },
  );
  const heard: unknown[] = [];
  child.on("message", (message) => heard.push(message));
  const [code] = (await once(child, "exit")) as [number | null];
  const [restarted] = heard as (Restarted | undefined)[];
  if (code !== 0 || restarted === undefined) throw new Error(`the core of ${stream} ended with ${code}`);
  const { phases } = restarted;
  if (phases["claimed"] !== claimed || phases["queued"] !== queued)
    throw new Error(`${stream} came to ${JSON.stringify(phases)}`);
  return restarted;
}
