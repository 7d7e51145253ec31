import assert from "node:assert/strict";
import { Code } from "@connectrpc/connect";
import { describe, it } from "mocha";
import { createFacadeCalls } from "../../../controller/bootstrap/facade-calls.ts";
import { createFacadeConnection } from "../../../controller/bootstrap/facade-client.ts";
import { defaultTimes } from "../../../controller/bootstrap/times.ts";
import { RefusedError } from "../../../controller/bootstrap/until-answered.ts";
import { waitForFacade } from "../../../controller/bootstrap/wait-for-facade.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createFakeFacade, serveFacade } from "../../fakes/fake-facade.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { facadeInMemory } from "../../support/facade-in-memory.ts";

const caller = { assignmentId: "gitea-task-42", capability: "1.open-sesame", instance: "instance-1" };
const never = new AbortController().signal;

describe("waiting for the facade", () => {
  it("B-73 goes on through gateway errors, a probe every 250 ms", async () => {
    const facade = createFakeFacade();
    await using server = await serveFacade(facade);
    server.gatewayErrors(502, 503, 504);
    const clock = createFakeClock();
    const log = createRecordingLogger();
    const connection = createFacadeConnection(server.url, caller, server.sessions);
    const calls = createFacadeCalls(connection, clock, log);
    let reached = false;
    const waiting = waitForFacade(calls, defaultTimes, never).then(() => (reached = true));
    for (const _ of [502, 503, 504]) {
      await betweenProbes(clock);
      await clock.step(249);
      assert.equal(facade.calls.length, 0);
      assert.deepEqual(clock.pending(), [1]);
      await clock.step(1);
    }
    await waiting;
    assert.equal(reached, true);
    assert.deepEqual(facade.calls, ["declare"]);
    assert.doesNotMatch(log.text(), /sesame/);
  });

  it("says with each call whom it speaks for", async () => {
    const facade = createFakeFacade();
    await using server = await serveFacade(facade);
    const connection = createFacadeConnection(server.url, caller, server.sessions);
    await waitForFacade(
      createFacadeCalls(connection, createFakeClock(), createRecordingLogger()),
      defaultTimes,
      never,
    );
    const [headers] = facade.headers;
    assert.equal(headers?.get("ci-assignment-id"), caller.assignmentId);
    assert.equal(headers?.get("ci-runner-capability"), caller.capability);
    assert.equal(headers?.get("ci-bootstrap-instance"), caller.instance);
  });

  it("goes on while nobody listens", async () => {
    const server = await serveFacade(createFakeFacade());
    const connection = createFacadeConnection(server.url, caller, server.sessions);
    await server[Symbol.asyncDispose]();
    const clock = createFakeClock();
    const log = createRecordingLogger();
    const stop = new AbortController();
    const waiting = waitForFacade(createFacadeCalls(connection, clock, log), defaultTimes, stop.signal);
    await betweenProbes(clock);
    assert.match(String(log.lines[0]?.fields["error"]), /ECONNREFUSED/);
    stop.abort(new Error("enough"));
    await assert.rejects(waiting, /enough/);
  });

  it("B-73 gives a probe 2 s, and dials anew after it", async () => {
    const { calls, clock, facade, redials } = facadeInMemory();
    facade.hangNext("declare");
    const waiting = waitForFacade(calls, defaultTimes, never);
    await facade.called("declare");
    await clock.step(1_999);
    assert.equal(redials(), 0);
    await clock.step(1);
    assert.equal(redials(), 1);
    await clock.step(250);
    await waiting;
    assert.equal(facade.calls.length, 2);
  });

  for (const code of [Code.PermissionDenied, Code.Unavailable, Code.Internal, Code.Unknown])
    it(`repeats after ${Code[code]}, telling it once`, async () => {
      const { calls, clock, facade, log } = facadeInMemory();
      facade.failNext("declare", code, 3);
      const waiting = waitForFacade(calls, defaultTimes, never);
      for (let i = 0; i < 3; i++) {
        await betweenProbes(clock);
        await clock.step(250);
      }
      await waiting;
      assert.equal(facade.calls.length, 4);
      assert.equal(log.lines.length, 1);
    });

  it("dials anew after a cancel that it did not ask for", async () => {
    const { calls, clock, facade, redials } = facadeInMemory();
    facade.failNext("declare", Code.Canceled);
    const waiting = waitForFacade(calls, defaultTimes, never);
    await betweenProbes(clock);
    await clock.step(250);
    await waiting;
    assert.equal(redials(), 1);
  });

  it("gives up at once when it is refused for good", async () => {
    const { calls, facade } = facadeInMemory();
    facade.fail("declare", Code.Unauthenticated);
    await assert.rejects(waitForFacade(calls, defaultTimes, never), RefusedError);
    assert.equal(facade.calls.length, 1);
  });

  it("tells the capabilities of the Gitea behind it", async () => {
    const { calls, facade } = facadeInMemory();
    facade.capabilities = "job-summary";
    assert.equal(await waitForFacade(calls, defaultTimes, never), "job-summary");
  });
});

/** Resolves when a probe is over and the pause before the next one is waited for. */
async function betweenProbes(clock: ReturnType<typeof createFakeClock>): Promise<void> {
  while (clock.pending().join() !== "250") await new Promise((resolve) => setImmediate(resolve));
}
