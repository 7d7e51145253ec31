import { createClient, createRouterTransport } from "@connectrpc/connect";
import { createFacadeCalls, type FacadeCalls } from "../../controller/bootstrap/facade-calls.ts";
import { createRelay, type Relay, type RelayOptions } from "../../controller/bootstrap/relay.ts";
import { defaultTimes } from "../../controller/bootstrap/times.ts";
import { Result, RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeClock, type FakeClock } from "../fakes/fake-clock.ts";
import { createFakeFacade, type FakeFacade } from "../fakes/fake-facade.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";

/** A relay that sends what it takes. */
export type RunningRelay = Relay & {
  /** Settles when it has nothing to do any more. */
  readonly sending: Promise<void>;
};

/** A fake facade without a network, and all that calls to it need. */
export type FacadeInMemory = {
  readonly facade: FakeFacade;
  readonly clock: FakeClock;
  readonly log: RecordingLogger;
  readonly calls: FacadeCalls;
  readonly redials: () => number;
  /** A relay of task 42, whose log has `facade.logRows` rows already. */
  readonly newRelay: (
    options?: Partial<Pick<RelayOptions, "ended" | "stop" | "limits">>,
    signal?: AbortSignal,
  ) => RunningRelay;
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
    newRelay: (options = {}, signal = new AbortController().signal) => {
      const relay = createRelay({
        calls,
        clock,
        times: defaultTimes,
        log,
        taskId: 42n,
        logRows: BigInt(facade.logRows),
        ended: Result.UNSPECIFIED,
        stop: new AbortController().signal,
        ...options,
      });
      return { ...relay, sending: relay.run(signal) };
    },
  };
}
