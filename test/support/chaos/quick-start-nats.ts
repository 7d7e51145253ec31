import { rm } from "node:fs/promises";
import path from "node:path";
import { systemClock } from "../../../controller/platform/clock.ts";
import { connectNats, type NatsLink } from "../../../controller/platform/nats-connection.ts";
import { createStreams } from "../../../controller/queue/prepare-streams.ts";
import { wantedStreams } from "../../../controller/queue/streams.ts";
import type { Nats } from "../../../scripts/peers/start-nats.ts";
import type { Platform } from "../../../scripts/quick-start/platform.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";

/** As `NATS_STREAM` and `NATS_SUBJECT_BASE` are where nobody says otherwise. */
export const stream = "CI_RUNNER";
const subjectBase = "ci.assignment";

const soon = () => AbortSignal.timeout(60_000);

/** Lends a connection of its own to the quick start's server. */
export async function withNats<T>(nats: Nats, work: (link: NatsLink) => Promise<T>): Promise<T> {
  const { url, user, password } = nats;
  const settings = { url, user, password, clock: systemClock, log: createRecordingLogger() };
  const link = await connectNats(settings, soon());
  try {
    return await work(link);
  } finally {
    await link.close();
  }
}

/** The server comes back with an empty disk, and somebody makes streams and bucket anew, as Pulumi would. */
export async function loseStore(
  platform: Pick<Platform, "nats" | "restartNats">,
  capacity: number,
): Promise<void> {
  await platform.restartNats(soon(), (folder) => rm(path.join(folder, "jetstream"), { recursive: true }));
  const wanted = wantedStreams({ stream, subjectBase, capacity: { pod: capacity, vm: 1 } });
  await withNats(platform.nats, (link) => createStreams(link, wanted, soon()));
}
