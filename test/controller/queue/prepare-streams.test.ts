import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { type Clock, systemClock } from "../../../controller/platform/clock.ts";
import { QueueUnavailableError } from "../../../controller/queue/errors.ts";
import {
  createStreams,
  findStreams,
  StreamMismatchError,
  waitForStreams,
} from "../../../controller/queue/prepare-streams.ts";
import { wantedStreams } from "../../../controller/queue/streams.ts";
import { soon, useJetStream } from "../../support/jetstream.ts";
import { useNats } from "../../support/nats.ts";

/** A hundred times as fast. */
const hastyClock: Clock = {
  now: () => Date.now() * 100,
  sleep: (ms, signal) => systemClock.sleep(ms / 100, signal),
};

describe("the streams of the controller", () => {
  const nats = useNats({ maxPayload: 1024 * 1024 });
  const jetStream = useJetStream(nats);

  const wait = (
    { link, log, settings }: Awaited<ReturnType<typeof jetStream.open>>,
    signal = soon(),
    overrides: Partial<typeof settings> = {},
  ) =>
    waitForStreams(
      { link, log, clock: hastyClock, wanted: wantedStreams({ ...settings, ...overrides }) },
      signal,
    );

  it("are what is wanted once they were created, but for the small server", async () => {
    const opened = await jetStream.open();
    await wait(opened);
    const warnings = opened.log.lines.filter(({ level }) => level !== "info");
    assert.equal(warnings.length, 1);
    assert.match(opened.log.text(), /max_payload is 1048576 bytes/);
  });

  it("are left as they are when they are created again, but for the capacity", async () => {
    const { link, settings } = await jetStream.open({ capacity: 2 });
    const manager = await link.nats.jetstreamManager();
    await manager.streams.update(settings.stream, { max_msgs: 77 });
    const before = await manager.streams.info(settings.stream);
    const wanted = wantedStreams({ ...settings, capacity: { pod: 3, vm: 2 } });
    await createStreams(link, wanted, soon());
    await createStreams(link, wanted, soon());
    const after = await manager.streams.info(settings.stream);
    assert.deepEqual([after.config, after.created], [before.config, before.created]);
    const { consumers } = await findStreams(link, wanted, soon());
    const capacities = [...consumers].map(([name, config]) => [name, config.max_ack_pending]);
    assert.deepEqual(capacities, [
      ["pod", 3],
      ["vm", 2],
    ]);
  });

  it("are waited for while they are missing, loudly", async () => {
    const opened = await jetStream.open({ create: false });
    const { link, log, settings } = opened;
    const waiting = wait(opened);
    const loud = "jetstream is not ready, waiting for it";
    const { level, fields } = await log.line(loud);
    assert.equal(level, "error");
    const { stream } = settings;
    assert.equal(fields["error"], `missing: stream ${stream}, bucket stream KV_${stream}_STATE`);
    await log.line(loud, log.lines.length);
    await createStreams(link, wantedStreams(settings), soon());
    await waiting;
  });

  it("stop being waited for when the signal is aborted", async () => {
    const opened = await jetStream.open({ create: false });
    const stop = new AbortController();
    const waiting = wait(opened, stop.signal);
    await opened.log.line("jetstream is not ready, waiting for it");
    stop.abort(new Error("enough"));
    await assert.rejects(waiting, /^Error: enough$/);
  });

  it("are refused when their subjects are others, though something is missing as well", async () => {
    const opened = await jetStream.open();
    const manager = await opened.link.nats.jetstreamManager();
    await manager.streams.delete(`KV_${opened.settings.stream}_STATE`);
    await assert.rejects(wait(opened, soon(), { subjectBase: "elsewhere" }), (error) => {
      assert.ok(error instanceof StreamMismatchError);
      assert.match(error.message, /has subjects test\.\d+\.\*, elsewhere\.\* is wanted/);
      assert.match(error.message, /consumer pod .* has filter/);
      return true;
    });
  });

  it("differ in capacity without stopping the start", async () => {
    const opened = await jetStream.open();
    await wait(opened, soon(), { capacity: { pod: 9, vm: 4 } });
    assert.match(opened.log.text(), /consumer pod of TEST_\d+ has max_ack_pending 4, 9 is wanted/);
  });

  it("cannot be looked for while the server is away", async () => {
    const opened = await jetStream.open();
    const { link, log, settings } = opened;
    await nats.kill();
    await log.line("nats connection lost, reconnecting");
    await assert.rejects(findStreams(link, wantedStreams(settings), soon()), QueueUnavailableError);
    const waiting = wait(opened);
    const { fields } = await log.line("jetstream is not ready, waiting for it");
    assert.match(String(fields["error"]), /NATS is not connected/);
    await nats.start();
    await waiting;
  });
});
