import { systemClock } from "../../controller/platform/clock.ts";
import { connectNats, type NatsLink } from "../../controller/platform/nats-connection.ts";
import type { Nats } from "../../scripts/peers/start-nats.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";

const connectMs = 60_000;

/** Lends a connection of its own to a server. */
export async function withNats<T>(
  { url, user, password }: Pick<Nats, "url" | "user" | "password">,
  work: (link: NatsLink) => Promise<T>,
): Promise<T> {
  const settings = { url, user, password, clock: systemClock, log: createRecordingLogger() };
  const link = await connectNats(settings, AbortSignal.timeout(connectMs));
  try {
    return await work(link);
  } finally {
    await link.close();
  }
}
