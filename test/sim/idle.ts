import type { World } from "./world.ts";

/** For so long nothing is written where nothing is to be done. */
const idleMs = 20_000;
/** What the end of the last job leaves to be done, like a row that was on its way. */
const calmMs = 5_000;

/** I9: a controller that has nothing to do reads and asks for tasks, and writes nothing anywhere. */
export async function violatedIdle({
  clock,
  leadership,
  troubles,
  effects,
}: World): Promise<string | undefined> {
  const now = clock.now();
  // Somebody else would have begun something by then.
  if (leadership.leader()?.serves !== true || troubles.during(now, now + calmMs + idleMs) > 0)
    return undefined;
  await clock.run(now + calmMs);
  const before = new Map(effects);
  await clock.run(now + calmMs + idleMs);
  for (const [what, count] of effects) {
    const more = count - (before.get(what) ?? 0);
    if (more > 0) return `I9: ${what} came ${more} times while there was nothing to do`;
  }
  return undefined;
}
