import { createClient, createRouterTransport } from "@connectrpc/connect";
import { createFacadeCalls, type FacadeCalls } from "../../controller/bootstrap/facade-calls.ts";
import { defaultTimes } from "../../controller/bootstrap/times.ts";
import { createRelay, type Relay } from "../../controller/bootstrap/relay.ts";
import { Result, RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeClock, type FakeClock } from "../fakes/fake-clock.ts";
import { createFakeFacade, type FakeFacade } from "../fakes/fake-facade.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";

/** A fake facade without a network, and all that calls to it need. */
export type FacadeInMemory = {
  readonly facade: FakeFacade;
  readonly clock: FakeClock;
  readonly log: RecordingLogger;
  readonly calls: FacadeCalls;
  readonly redials: () => number;
  /** A relay of task 42, whose log has `facade.logRows` rows already. */
  readonly newRelay: (ended?: Result, stop?: AbortSignal) => Relay;
};

export function facadeInMemory(overrides: Parameters<typeof createFakeFacade>[0] = {}): FacadeInMemory {
  const facade = createFakeFacade(overrides);
  const clock = createFakeClock();
  const log = createRecordingLogger();
  let redials = 0;
  const client = createClient(RunnerService, createRouterTransport(facade.routes));
  const calls = createFacadeCalls({ client, redial: () => void redials++ }, clock, log);
  return {
    facade,
    clock,
    log,
    calls,
    redials: () => redials,
    newRelay: (ended = Result.UNSPECIFIED, stop = new AbortController().signal) =>
      createRelay({
        calls,
        clock,
        taskId: 42n,
        logRows: BigInt(facade.logRows),
        ended,
        callDeadline: defaultTimes.call,
        signal: new AbortController().signal,
        stop,
      }),
  };
}
