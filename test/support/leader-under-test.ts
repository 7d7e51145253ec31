import { type Leadership, lead, mayServe, mustLead } from "../../controller/lifecycle/lead.ts";
import { defaultLeaseTimes } from "../../controller/lifecycle/lease.ts";
import { createLeaderKey } from "../../controller/record/leader-key.ts";
import { serveAsLeader } from "../../controller/serve-as-leader.ts";
import type { CorePorts } from "../../controller/core-ports.ts";
import { createFakeKeyValue, type FakeKeyValue } from "../fakes/fake-key-value.ts";
import { createFakeLease, type FakeLease } from "../fakes/fake-lease.ts";
import { type CoreUnderTest, createCoreUnderTest } from "./core-under-test.ts";

export type LeaderUnderTest = CoreUnderTest & {
  readonly lease: FakeLease;
  readonly bucket: FakeKeyValue;
  /** How it stands with its time as leader. */
  state(): "waits" | "leads" | "serves" | "over";
  /** Executors can reach it. */
  listens(): boolean;
  /** The bucket answers nobody from now on, or does again. */
  setBucketAway(away: boolean): void;
  /** How it ended: undefined while it has not, "done", or the error. */
  outcome(): unknown;
  /** Time goes by, and no timer of the process fires: the next one that does finds itself late. */
  standStill(ms: number): void;
  stop(): void;
};

/** The whole core between fakes, with a Lease, and everything that a controller does about it. */
export function createLeaderUnderTest(ports: Partial<CorePorts> = {}): LeaderUnderTest {
  const lease = createFakeLease();
  const bucket = createFakeKeyValue();
  const stop = new AbortController();
  let stoodStill = 0;
  let leadership: Leadership | undefined;
  let listens = false;
  let bucketAway = false;
  let outcome: unknown;
  const one = createCoreUnderTest({
    ...ports,
    mustLead: () => {
      if (leadership !== undefined) mustLead(leadership);
    },
    mayServe: () => {
      if (leadership !== undefined) mayServe(leadership);
    },
  });
  const { clock, log, core } = one;
  const basics = { clock, random: () => 0.5, log };
  const unlessAway = <T>(call: () => Promise<T>): Promise<T> =>
    bucketAway ? Promise.reject(new Error("no responders")) : call();
  const leaderKey = createLeaderKey({
    bucket: {
      read: (...call) => unlessAway(() => bucket.read(...call)),
      write: (...call) => unlessAway(() => bucket.write(...call)),
    },
    identity: "me",
    pollMs: 2_000,
    clock,
  });
  const openFacade = async () => {
    listens = true;
    return { [Symbol.asyncDispose]: async () => void (listens = false) };
  };
  const work = async (given: Leadership) => {
    leadership = given;
    await serveAsLeader({ core, leaderKey, openFacade, ...basics }, given, stop.signal);
  };
  const times = defaultLeaseTimes;
  const steady = () => clock.now() + stoodStill;
  const superseded = (signal: AbortSignal) => leaderKey.superseded(signal);
  const options = { port: lease, identity: "me", steady, superseded, times, ...basics };
  lead(options, work, stop.signal).then(
    () => void (outcome = "done"),
    (error: unknown) => void (outcome = error),
  );
  return {
    ...one,
    lease,
    bucket,
    state: () => {
      if (leadership === undefined) return "waits";
      if (!leadership.leading.aborted) return "leads";
      return leadership.serving.aborted ? "over" : "serves";
    },
    listens: () => listens,
    setBucketAway: (away) => void (bucketAway = away),
    outcome: () => outcome,
    standStill: (ms) => void (stoodStill += ms),
    stop: () => {
      stop.abort(new Error("SIGTERM"));
    },
  };
}
