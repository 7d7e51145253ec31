import { isUnclaimed } from "../../controller/assignment/record.ts";
import { defaultTimes } from "../../controller/assignment/times.ts";
import type { Happening } from "./plan.ts";
import { moment } from "./troubles.ts";
import type { World } from "./world.ts";

/** Two looks, and the writes that follow. */
const repairMs = 2 * defaultTimes.compareStreamMs;

type Lost = Extract<Happening, { do: "lose-stream" | "lose-tail" | "restore-stream" }>;

/** What the stream has lost is told to the facts, and is to be there again soon. */
export function loseMessages(world: World, incident: Lost, restore: (ageMs: number) => () => void): void {
  const { stream, facts, troubles } = world;
  troubles.last("stream", moment);
  const ids = () => stream.after(0).map(({ publication }) => publication.assignment.id);
  const before = ids();
  switch (incident.do) {
    case "lose-stream":
      stream.lose();
      break;
    case "lose-tail":
      stream.loseTail(incident.count);
      break;
    case "restore-stream":
      restore(incident.ageMs)();
      break;
    default:
      incident satisfies never;
  }
  const there = new Set(ids());
  const lost = before.filter((id) => !there.has(id));
  facts.lost("message", lost);
  expectAnew(world, "message", lost, 0);
}

/** The bucket and all that is in it; somebody makes it anew after `anewMs`. */
export function loseBucket(world: World, anewMs: number): void {
  const { clock, bucket, facts, troubles } = world;
  troubles.last("bucket", anewMs);
  const records = bucket.keys.filter((key) => !key.includes("."));
  const reported = bucket.keys.flatMap((key) => (key.includes(".") ? [key.slice(0, key.indexOf("."))] : []));
  bucket.lose();
  facts.lost("record", [...new Set([...records, ...reported])]);
  clock.after(anewMs, () => bucket.makeAnew());
  expectAnew(world, "record", records, anewMs);
}

/** I10: a leader that remembers, and is not kept from it, stores anew what was lost. */
function expectAnew(world: World, what: "record" | "message", ids: readonly string[], afterMs: number): void {
  const { clock, bucket, facts, leadership, troubles, outrage } = world;
  const leader = leadership.leader();
  const lostAt = clock.now();
  if (leader?.serves !== true) return;
  const isWanted = (id: string) => {
    if (facts.ofAssignment(id)?.job.over !== undefined) return false;
    const record = bucket.recordOf(id);
    return what === "record" || (record !== undefined && isUnclaimed(record));
  };
  clock.after(afterMs + repairMs, () => {
    if (troubles.during(lostAt, clock.now(), ["leader", "queue", "records", "clock"]) > 0) return;
    for (const id of ids)
      if ((facts.lostSince(what, id) ?? Infinity) <= lostAt && isWanted(id))
        outrage(`I10: the ${what} of ${id} was lost, and is not stored anew`);
  });
}
