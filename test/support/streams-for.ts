import { readConfig } from "../../controller/config.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { connectNats } from "../../controller/platform/nats-connection.ts";
import { createStreams } from "../../controller/queue/prepare-streams.ts";
import { wantedStreams } from "../../controller/queue/streams.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { soon } from "./jetstream.ts";

/** Makes the streams of a controller with these variables, as Pulumi does. */
export async function makeStreamsFor(environment: Readonly<Record<string, string>>): Promise<void> {
  const { nats, backends } = readConfig(environment);
  const { url, user, password, stream, subjectBase } = nats;
  const capacity = { pod: 1, vm: 1 };
  for (const { kind, capacity: slots } of backends) capacity[kind] = slots;
  const log = createRecordingLogger();
  const link = await connectNats({ url, user, password, clock: systemClock, log }, soon());
  try {
    await createStreams(link, wantedStreams({ stream, subjectBase, capacity }), soon());
  } finally {
    await link.close();
  }
}
