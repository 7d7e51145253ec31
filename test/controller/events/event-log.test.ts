import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import type { AssignmentEvent } from "../../../controller/events/event.ts";
import { createEventLog, type EventLog, type EventLogOptions } from "../../../controller/events/event-log.ts";
import { EventsUnavailableError, readEvents } from "../../../controller/events/read-events.ts";
import type { NatsLink } from "../../../controller/platform/nats-connection.ts";
import { type Clock, systemClock } from "../../../controller/platform/clock.ts";
import { createWakeup } from "../../../controller/platform/wakeup.ts";
import { createStreams } from "../../../controller/queue/prepare-streams.ts";
import { eventStream, eventSubject, wantedStreams } from "../../../controller/queue/streams.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createRecordingLogger, type RecordingLogger } from "../../fakes/recording-logger.ts";
import { anAssignment } from "../../support/builders.ts";
import { type JetStreamUnderTest, soon, useJetStream } from "../../support/jetstream.ts";
import { useNats } from "../../support/nats.ts";

/** A hundred times as fast. */
const hastyClock: Clock = {
  now: () => Date.now() * 100,
  sleep: (ms, signal) => systemClock.sleep(ms / 100, signal),
};

const idOf = (task: number) => anAssignment({ taskId: BigInt(task) }).id;
const anEvent = (task: number, attempt: number): AssignmentEvent => ({
  assignment: idOf(task),
  backend: "pod",
  event: "executor_created",
  attempt,
});

/** A link whose requests can be awaited. */
type Watched = Pick<NatsLink, "nats" | "exchange"> & {
  /** Resolves as soon as it holds, looking whenever a request has begun or ended. */
  until(holds: (requests: number) => boolean): Promise<void>;
};

function watched(link: NatsLink): Watched {
  const moved = createWakeup();
  const wake = () => {
    moved.wake();
  };
  let requests = 0;
  return {
    nats: link.nats,
    exchange: async (request, signal) => {
      requests++;
      setImmediate(wake);
      try {
        return await link.exchange(request, signal);
      } finally {
        setImmediate(wake);
      }
    },
    until: async (holds) => {
      while (!holds(requests)) await moved.next(soon());
    },
  };
}

type Opened = Omit<JetStreamUnderTest, "link"> & {
  readonly link: NatsLink;
  readonly watch: Watched;
  readonly stream: string;
  readonly losses: RecordingLogger;
};

describe("the log of events", () => {
  const nats = useNats();
  const stops: (() => Promise<void>)[] = [];
  afterEach("stop the loops", async () => {
    for (const stop of stops.splice(0)) await stop();
  });
  const jetStream = useJetStream(nats);

  const open = async (create = true): Promise<Opened> => {
    const opened = await jetStream.open({ create });
    const stream = eventStream(opened.settings.stream);
    return { ...opened, watch: watched(opened.link), stream, losses: createRecordingLogger() };
  };
  const logOf = (opened: Opened, overrides: Partial<EventLogOptions> = {}): EventLog =>
    createEventLog({
      link: opened.watch,
      stream: opened.stream,
      subject: (id) => eventSubject(opened.settings.subjectBase, id),
      controller: "controller-0",
      instance: "instance",
      clock: hastyClock,
      random: () => 0,
      log: opened.losses,
      ...overrides,
    });
  /** Runs it until the end of the test, or until the function that this returns. */
  const run = (events: EventLog) => {
    const over = new AbortController();
    const running = events.run(over.signal);
    const stop = async () => {
      over.abort();
      await running;
    };
    stops.push(stop);
    return stop;
  };
  const read = async ({ link, stream, settings }: Opened, task: number) => {
    const subject = (id: string) => eventSubject(settings.subjectBase, id);
    return readEvents({ link, stream, subject }, idOf(task), soon());
  };
  const attempts = async (opened: Opened, task: number) =>
    (await read(opened, task)).events.map(({ attempt }) => attempt);
  const stored = async ({ link, stream }: Opened) =>
    (await (await link.nats.jetstreamManager()).streams.info(stream)).state.messages;
  const empty = ({ watch }: Opened, events: EventLog) => watch.until(() => events.figures().waiting === 0);

  it("keeps what happened to each assignment, in order, apart from the others", async () => {
    const opened = await open();
    const events = logOf(opened);
    run(events);
    for (let attempt = 1; attempt <= 20; attempt++)
      for (const task of [1, 2, 3]) events.publish(anEvent(task, attempt));
    await empty(opened, events);
    for (const task of [1, 2, 3])
      assert.deepEqual(
        await attempts(opened, task),
        Array.from({ length: 20 }, (_, n) => n + 1),
      );
    assert.deepEqual(await read(opened, 4), { events: [], unreadable: 0 });
    assert.deepEqual(events.figures(), { waiting: 0, dropped: 0 });
    assert.deepEqual(opened.losses.lines, []);
  });

  it("stores once and in order, after an outage of NATS, what was published meanwhile", async () => {
    const opened = await open();
    // On the hasty clock a server that is still starting must not pass for one without the stream.
    const events = logOf(opened, { limits: { patienceMs: 6_000_000 } });
    run(events);
    events.publish(anEvent(1, 1));
    await empty(opened, events);
    await nats.kill();
    await opened.log.line("nats connection lost, reconnecting");
    for (let attempt = 2; attempt <= 30; attempt++) events.publish(anEvent(1, attempt));
    assert.equal(events.figures().waiting, 29);
    await nats.start();
    await empty(opened, events);
    assert.deepEqual(
      await attempts(opened, 1),
      Array.from({ length: 30 }, (_, n) => n + 1),
    );
    assert.equal(await stored(opened), 30);
    assert.deepEqual(opened.losses.lines, []);
  });

  it("stores once what the server took without an answer", async () => {
    const opened = await open();
    const events = logOf(opened, { limits: { requestMs: 100 } });
    run(events);
    await nats.pause();
    events.publish(anEvent(1, 1));
    events.publish(anEvent(1, 2));
    await opened.watch.until((requests) => requests >= 3);
    nats.resume();
    await empty(opened, events);
    assert.deepEqual(await attempts(opened, 1), [1, 2]);
    assert.equal(await stored(opened), 2);
    assert.equal(events.figures().dropped, 0);
  });

  it("I10 drops events while their stream is lost, counts them, says so once, and goes on with a new stream", async () => {
    const opened = await open();
    const events = logOf(opened);
    run(events);
    events.publish(anEvent(1, 1));
    await empty(opened, events);
    const manager = await opened.link.nats.jetstreamManager();
    await manager.streams.delete(opened.stream);
    for (let attempt = 2; attempt <= 11; attempt++) events.publish(anEvent(1, attempt));
    await empty(opened, events);
    assert.deepEqual(events.figures(), { waiting: 0, dropped: 10 });
    // Without patience now.
    for (let attempt = 12; attempt <= 14; attempt++) {
      events.publish(anEvent(1, attempt));
      await empty(opened, events);
    }
    assert.equal(events.figures().dropped, 13);
    assert.deepEqual(
      opened.losses.lines.map(({ level, message }) => [level, message]),
      [["warn", "events are dropped"]],
    );
    await createStreams(opened.link, wantedStreams(opened.settings), soon());
    events.publish(anEvent(1, 15));
    await empty(opened, events);
    assert.deepEqual(await attempts(opened, 1), [15]);
    assert.deepEqual(opened.losses.lines.at(-1), {
      level: "info",
      message: "events are kept again",
      fields: { dropped: 13 },
    });
  });

  it("waits for a stream that only comes a moment later, as after a restart of NATS", async () => {
    const opened = await open(false);
    const clock = createFakeClock();
    const events = logOf(opened, { clock });
    run(events);
    events.publish(anEvent(1, 1));
    await clock.waiting();
    assert.equal(events.figures().waiting, 1);
    await createStreams(opened.link, wantedStreams(opened.settings), soon());
    await clock.step(5_000);
    await empty(opened, events);
    assert.deepEqual(await attempts(opened, 1), [1]);
    assert.equal(events.figures().dropped, 0);
  });

  it("goes nowhere but into its stream, whoever listens there", async () => {
    const opened = await open(false);
    const manager = await opened.link.nats.jetstreamManager();
    const subjects = [eventSubject(opened.settings.subjectBase, "*")];
    await manager.streams.add({ name: `${opened.stream}_OTHER`, subjects });
    const events = logOf(opened);
    run(events);
    events.publish(anEvent(1, 1));
    await empty(opened, events);
    assert.equal(events.figures().dropped, 1);
    assert.match(opened.losses.text(), /expected stream does not match/);
    assert.equal((await manager.streams.info(`${opened.stream}_OTHER`)).state.messages, 0);
  });

  it("drops the oldest when more wait than may, and says so once", async () => {
    const opened = await open();
    const events = logOf(opened, { limits: { waiting: 5 } });
    for (let attempt = 1; attempt <= 8; attempt++) events.publish(anEvent(1, attempt));
    assert.deepEqual(events.figures(), { waiting: 5, dropped: 3 });
    assert.deepEqual(opened.losses.lines, [
      { level: "warn", message: "events are dropped", fields: { reason: "more than 5 wait" } },
    ]);
    run(events);
    await empty(opened, events);
    assert.deepEqual(await attempts(opened, 1), [4, 5, 6, 7, 8]);
    assert.equal(opened.losses.lines.length, 2);
  });

  it("takes whatever it is given without an error, and drops what is no event", async () => {
    const opened = await open();
    const events = logOf(opened);
    const hostile = {
      ...anEvent(1, 1),
      get evidence(): string {
        throw new Error("no evidence");
      },
    };
    events.publish({ ...anEvent(1, 1), assignment: "gitea-task-1.>" });
    events.publish({ ...anEvent(1, 1), attempt: 1n } as unknown as AssignmentEvent);
    events.publish(undefined as unknown as AssignmentEvent);
    events.publish(Object.create(hostile) as AssignmentEvent);
    assert.deepEqual(events.figures(), { waiting: 0, dropped: 4 });
  });

  it("I9 sends nothing and sets no timer while nothing happens", async () => {
    const opened = await open();
    const clock = createFakeClock();
    const events = logOf(opened, { clock });
    run(events);
    events.publish(anEvent(1, 1));
    await empty(opened, events);
    const { outMsgs } = opened.link.nats.stats();
    await clock.step(24 * 60 * 60_000);
    assert.deepEqual(clock.pending(), []);
    assert.equal(opened.link.nats.stats().outMsgs, outMsgs);
  });

  it("stores what is left when it is stopped, also what was published during the stop", async () => {
    const opened = await open();
    // It stands still: the time for the last events is not over before a busy machine has stored them.
    const events = logOf(opened, { clock: createFakeClock() });
    await nats.pause();
    const stop = run(events);
    events.publish(anEvent(1, 1));
    await opened.watch.until((requests) => requests === 1);
    const stopped = stop();
    events.publish(anEvent(1, 2));
    nats.resume();
    await stopped;
    assert.deepEqual(await attempts(opened, 1), [1, 2]);
    assert.deepEqual(events.figures(), { waiting: 0, dropped: 0 });
  });

  it("ends a few seconds after it was stopped, though NATS is away, and says what is lost", async () => {
    const opened = await open();
    const clock = createFakeClock();
    const events = logOf(opened, { clock, limits: { drainMs: 3_000 } });
    const stop = run(events);
    await nats.kill();
    await opened.log.line("nats connection lost, reconnecting");
    events.publish(anEvent(1, 1));
    events.publish(anEvent(1, 2));
    await clock.waiting();
    const stopped = stop();
    await clock.step(3_000);
    await stopped;
    assert.deepEqual(events.figures(), { waiting: 0, dropped: 2 });
    assert.deepEqual(
      opened.losses.lines.map(({ message, fields }) => [message, fields]),
      [["events are dropped", { reason: "they could not be stored before the end" }]],
    );
    assert.deepEqual(clock.pending(), []);
  });
});

describe("reading events", () => {
  const nats = useNats();
  const jetStream = useJetStream(nats);
  const source = async (create: boolean) => {
    const { link, log, settings } = await jetStream.open({ create });
    const stream = eventStream(settings.stream);
    const subject = (id: string) => eventSubject(settings.subjectBase, id);
    return { link, log, stream, subject };
  };
  const unavailable = (reason: EventsUnavailableError["reason"]) => (error: unknown) =>
    error instanceof EventsUnavailableError && error.reason === reason;

  it("tells a stream that is not there from a server that is not there", async () => {
    const there = await source(false);
    await assert.rejects(readEvents(there, idOf(1), soon()), unavailable("stream-missing"));
    await nats.kill();
    await there.log.line("nats connection lost, reconnecting");
    await assert.rejects(readEvents(there, idOf(1), soon()), unavailable("unreachable"));
  });

  it("ends with its signal", async () => {
    const there = await source(true);
    const reason = new Error("enough");
    await assert.rejects(readEvents(there, idOf(1), AbortSignal.abort(reason)), reason);
  });

  it("finds nothing under what is no id, wildcards among them", async () => {
    const there = await source(true);
    await there.link.nats.jetstream().publish(there.subject("gitea-task-1"), "{}");
    for (const id of ["*", ">", "", "gitea-task-01"])
      assert.deepEqual(await readEvents(there, id, soon()), { events: [], unreadable: 0 });
    assert.deepEqual(await readEvents(there, idOf(1), soon()), { events: [], unreadable: 1 });
  });
});
