import type { ExecutorMetadata } from "../../assignment/executor-metadata.ts";
import { describeError } from "../../platform/errors.ts";
import { createLogLimit } from "../../platform/log-limit.ts";
import type { Random } from "../../platform/backoff.ts";
import { isAbortOf, withDeadline } from "../../platform/signal.ts";
import { listenForAny, type Wakeup } from "../../platform/wakeup.ts";
import { endSandbox, endVm } from "./end-vm.ts";
import type { KnownSandbox } from "./known-sandboxes.ts";
import { sameAttempt } from "./sandbox-executor.ts";
import type { VmWorld } from "./vm-world.ts";

export type LookAfterOptions = VmWorld & {
  /** Somebody wants to know soon. */
  readonly moved: Wakeup;
  readonly random: Random;
};

/** The same trouble is told this often. */
const tellMs = 60_000;

/**
 * Reads all sandboxes again and again, ends what is past its deadline and what is there twice, until the signal is aborted.
 * No trouble with the server ends it: what cannot be read stays as it was.
 */
export async function lookAfterVms(options: LookAfterOptions, signal: AbortSignal): Promise<void> {
  const { api, pool, known, reader, times, clock, random, moved, log } = options;
  const told = createLogLimit({ everyMs: tellMs, maxKeys: 100 }, clock);
  const busy = new Map<string, Promise<unknown>>();
  const begin = ({ key, doing, work }: Deed) => {
    if (busy.has(key)) return;
    const running = withDeadline(clock, times.goneMs, work, signal)
      .catch((error: unknown) => {
        if (!isAbortOf(signal, error)) tell({ key, error: describeError(error) }, `${doing} failed`);
      })
      .finally(() => busy.delete(key));
    busy.set(key, running);
  };
  const tell = (fields: { readonly key?: string; readonly error: string }, sentence: string) => {
    // Not by the error: each names its own request.
    const due = told.due(`${sentence} ${fields.key ?? ""}`);
    if (due !== undefined) log.warn({ ...fields, leftOut: due.leftOut }, sentence);
  };
  // That there is none is told as an error, as at each create.
  begin({ key: "pool", doing: "asking for the pool of VMs", work: (abort) => api.pool(pool, abort) });
  try {
    for (;;) {
      // Listening begins before the reading: what happens meanwhile is read again at once.
      const living = known.all().some(({ life }) => !life.isGone);
      const pauseMs = (living ? times.pollMs : times.idleMs) * (0.8 + 0.4 * random());
      using woken = listenForAny(
        [(either) => moved.next(either), (either) => clock.sleep(pauseMs, either)],
        signal,
      );
      try {
        await reader.readAll(signal);
      } catch (error) {
        signal.throwIfAborted();
        tell({ error: describeError(error) }, "listing sandboxes failed");
      }
      for (const deed of dueDeeds(options)) begin(deed);
      await woken.first();
    }
  } finally {
    await Promise.all(busy.values());
  }
}

type Deed = {
  readonly key: string;
  readonly doing: string;
  readonly work: (signal: AbortSignal) => Promise<unknown>;
};

function dueDeeds(world: VmWorld): readonly Deed[] {
  const { known, steady, log } = world;
  const living = known.all().filter(({ life }) => !life.isGone && !life.isStopping);
  const overdue = living.filter(({ life, endsAt }) => life.state.phase !== "ended" && steady() >= endsAt);
  const names = new Set(living.map(({ name }) => name));
  const twins = [...names].flatMap((name) => tooMany(known.of(name)));
  return [
    ...overdue.map(({ name }) => ({
      key: name,
      doing: "ending a VM past its deadline",
      work: (signal: AbortSignal) => endVm(name, { reason: "deadline", cause: "deadline" }, world, signal),
    })),
    ...twins.map((one) => ({
      key: one.id,
      doing: "deleting a second VM of one executor",
      work: async (signal: AbortSignal) => {
        log.warn({ executor: one.name, sandbox: one.id }, "second sandbox of one executor deleted");
        known.forget(one.id, await endSandbox(one, { reason: "there is another one" }, world, signal));
      },
    })),
  ];
}

/** What is surely the same attempt's as the executor before it. What cannot be read is left to whoever reports it. */
function tooMany([kept, ...others]: readonly KnownSandbox[]): readonly KnownSandbox[] {
  const own = kept === undefined || kept.life.isGone ? undefined : metadataOf(kept);
  if (own === undefined) return [];
  return others.filter((one) => {
    const metadata = metadataOf(one);
    return !one.life.isGone && !one.life.isStopping && metadata !== undefined && sameAttempt(metadata, own);
  });
}

function metadataOf({ reading: { executor } }: KnownSandbox): ExecutorMetadata | undefined {
  return executor.kind === "valid" ? executor.metadata : undefined;
}
