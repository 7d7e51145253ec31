import type { Config } from "./config.ts";
import { createEventLog, type EventLog } from "./events/event-log.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import type { NatsLink } from "./platform/nats-connection.ts";
import { eventStream, eventSubject } from "./queue/streams.ts";

export type HistoryOptions = {
  readonly connection: NatsLink;
  /** Of this process, and of no other one before or after it. */
  readonly instance: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

/** History, stored until it is disposed of: after everything that tells of something has ended. */
export function openHistory(
  { nats: { stream, subjectBase }, hostname: controller }: Pick<Config, "nats" | "hostname">,
  { connection: link, instance, clock, random, log }: HistoryOptions,
): EventLog & AsyncDisposable {
  const events = createEventLog({
    link,
    stream: eventStream(stream),
    subject: (id) => eventSubject(subjectBase, id),
    controller,
    instance,
    clock,
    random,
    log: log.child({ component: "events" }),
  });
  const telling = new AbortController();
  const told = events.run(telling.signal);
  return {
    ...events,
    [Symbol.asyncDispose]: async () => {
      telling.abort(new Error("the controller ends"));
      await told;
    },
  };
}
