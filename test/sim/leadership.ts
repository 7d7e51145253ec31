import type { Facts } from "./facts.ts";
import type { SimController } from "./sim-controller.ts";
import type { SimClock } from "./sim-clock.ts";
import { leaseTimes } from "./sim-times.ts";
import type { Troubles } from "./troubles.ts";

/** Whose key file a controller has: the first one, another one, or one that holds both. */
export type Keys = "first" | "other" | "both";

/** The Lease, and whoever starts controllers: one leads, or another one is about to. */
export type Leadership = {
  leader(): SimController | undefined;
  /** Why a controller ended by itself, if one did. */
  failure(): string | undefined;
  /** SIGKILL; the next one starts when the lease is over, and so much later. */
  crash(restartMs: number): void;
  /** SIGTERM; the next one leads soon after. */
  upgrade(): void;
  /**
   * It is stopped for so long, another one takes over meanwhile. When it goes on, its first look at the time tells it
   * that it must not lead any more; `wakesForMs` passes until then.
   */
  pause(ms: number, wakesForMs: number): void;
  /** Its lease cannot be renewed for so long, and nobody else takes it. */
  loseLease(ms: number): void;
  /** Each controller from now on has this key file. */
  useKeys(keys: Keys): void;
};

export type LeadershipOptions = {
  readonly clock: SimClock;
  readonly facts: Facts;
  readonly troubles: Troubles;
  /** `onServing`: it has recovered, and serves from now on. */
  readonly start: (keys: Keys, onServing: () => void) => SimController;
};

/** From the end of one controller to the start of the next, when it ends in order. */
const upgradeMs = 2_000;

/** Nobody leads yet. */
export function createLeadership({ clock, facts, troubles, start }: LeadershipOptions): Leadership {
  const all: SimController[] = [];
  let leader: SimController | undefined;
  let keys: Keys = "first";
  // The first has nobody who waits for it.
  let found: () => void = () => undefined;

  const lead = () => {
    if (leader !== undefined) return;
    const mine = start(keys, () => {
      if (leader === mine) found();
    });
    leader = mine;
    all.push(mine);
  };
  /** Nobody leads from now on, until a new one starts `ms` later. */
  const handOver = (ms: number): SimController | undefined => {
    const former = leader;
    leader = undefined;
    found();
    found = troubles.begin("leader");
    clock.after(ms, lead);
    return former;
  };
  const forget = () => {
    facts.memoryLost();
  };

  lead();
  return {
    leader: () => leader,
    failure: () => all.map((one) => one.failure()).find((failure) => failure !== undefined),
    crash: (restartMs) => {
      forget();
      handOver(leaseTimes.lastsMs + restartMs)?.process.kill();
    },
    upgrade: () => {
      forget();
      handOver(upgradeMs)?.stop();
    },
    pause: (ms, wakesForMs) => {
      forget();
      const paused = handOver(leaseTimes.lastsMs);
      // What it still does then is none of its business any more.
      troubles.last("leader", ms + wakesForMs + leaseTimes.lastsMs);
      paused?.process.stop();
      clock.after(ms, () => {
        paused?.process.goOn();
        clock.after(wakesForMs, () => paused?.stopLeading());
        clock.after(wakesForMs + leaseTimes.lastsMs, () => paused?.stop());
      });
    },
    loseLease: (ms) => {
      const former = handOver(leaseTimes.renewMs + ms);
      clock.after(leaseTimes.renewMs, () => {
        forget();
        former?.stopLeading();
      });
      clock.after(leaseTimes.renewMs + ms, () => former?.stop());
    },
    useKeys: (next) => {
      keys = next;
    },
  };
}
