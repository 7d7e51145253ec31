import { readConfig } from "../../controller/config.ts";
import { createStreams } from "../../controller/queue/prepare-streams.ts";
import { wantedStreams } from "../../controller/queue/streams.ts";
import { soon } from "./jetstream.ts";
import { withNats } from "./with-nats.ts";

/** Makes the streams of a controller with these variables, as Pulumi does. */
export async function makeStreamsFor(environment: Readonly<Record<string, string>>): Promise<void> {
  const { nats, backends } = readConfig(environment);
  const { stream, subjectBase } = nats;
  const capacity = { pod: 1, vm: 1 };
  for (const { kind, capacity: slots } of backends) capacity[kind] = slots;
  const wanted = wantedStreams({ stream, subjectBase, capacity });
  await withNats(nats, (link) => createStreams(link, wanted, soon()));
}
