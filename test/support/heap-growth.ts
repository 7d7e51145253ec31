import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { settle } from "../fakes/fake-clock.ts";

/**
 * By how many bytes the heap grows with each round, on average, once as many rounds have warmed it up: a process with a
 * large heap collects rarely, and the tables in which Node and V8 keep weak references grow until then, once and for all.
 */
export async function heapGrowth(rounds: number, round: () => Promise<void>): Promise<number> {
  for (let i = 0; i < rounds; i++) await round();
  const before = await usedBytes();
  for (let i = 0; i < rounds; i++) await round();
  return ((await usedBytes()) - before) / rounds;
}

async function usedBytes(): Promise<number> {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect !== "function") throw new Error("garbage cannot be collected on demand");
  // What is finalised is collected in the next round only.
  for (let i = 0; i < 4; i++) {
    collect();
    await settle();
  }
  return process.memoryUsage().heapUsed;
}
