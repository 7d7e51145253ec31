import type { JetStreamManager } from "nats";
import { bucketStream } from "../../controller/platform/jetstream.ts";
import { stateBucket } from "../../controller/queue/streams.ts";

/** How many keys of jobs are in the state bucket of a stream: all but the one that says who leads. */
export async function keysLeft(manager: JetStreamManager, stream: string): Promise<number> {
  const bucket = stateBucket(stream);
  const { state } = await manager.streams.info(bucketStream(bucket), { subjects_filter: ">" });
  return Object.keys(state.subjects ?? {}).filter((subject) => subject !== `$KV.${bucket}.leader`).length;
}
