import { bucketStream } from "../../../controller/platform/jetstream.ts";
import { stateBucket } from "../../../controller/queue/streams.ts";
import type { Nats } from "../../../scripts/peers/start-nats.ts";
import { withNats } from "../with-nats.ts";
import { more } from "./with-more.ts";

/** How many messages, and how many values of the bucket, lie as a newer version has written them. */
export async function writtenByNewer(
  nats: Nats,
  stream: string,
): Promise<{ readonly messages: number; readonly values: number }> {
  return await withNats(nats, async (link) => {
    const { streams } = await link.nats.jetstreamManager({ checkAPI: false });
    const count = async (name: string) => {
      const { first_seq: first, last_seq: last } = (await streams.info(name)).state;
      let found = 0;
      for (let seq = first; seq <= last; seq++) {
        // Those in between may be gone.
        const message = await streams.getMessage(name, { seq }).catch(() => undefined);
        if (Buffer.from(message?.data ?? []).includes(JSON.stringify(more.later))) found++;
      }
      return found;
    };
    return { messages: await count(stream), values: await count(bucketStream(stateBucket(stream))) };
  });
}
