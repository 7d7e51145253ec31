import { rm } from "node:fs/promises";
import path from "node:path";
import { createStreams } from "../../../controller/queue/prepare-streams.ts";
import { wantedStreams } from "../../../controller/queue/streams.ts";
import type { Platform } from "../../../scripts/quick-start/platform.ts";
import { withNats } from "../with-nats.ts";

/** As `NATS_STREAM` and `NATS_SUBJECT_BASE` are where nobody says otherwise. */
export const stream = "CI_RUNNER";
const subjectBase = "ci.assignment";

const soon = () => AbortSignal.timeout(60_000);

/** The server comes back with an empty disk, and somebody makes streams and bucket anew, as Pulumi would. */
export async function loseStore(
  platform: Pick<Platform, "nats" | "restartNats">,
  capacity: number,
): Promise<void> {
  await platform.restartNats(soon(), (folder) => rm(path.join(folder, "jetstream"), { recursive: true }));
  const wanted = wantedStreams({ stream, subjectBase, capacity: { pod: capacity, vm: 1 } });
  await withNats(platform.nats, (link) => createStreams(link, wanted, soon()));
}
