import type { ExecutorMetadata } from "../../controller/assignment/executor-metadata.ts";
import { executorName } from "../../controller/assignment/executor-metadata.ts";
import type { Failure } from "../../controller/assignment/failure.ts";
import { BackendError, type Binding } from "../../controller/backends/backend.ts";
import type { VmIdentity } from "../../controller/backends/vm/vm-identity.ts";
import type { VmTimes } from "../../controller/backends/vm/vm-options.ts";
import { untilAborted } from "../../controller/platform/signal.ts";

/** As short as a real server on a busy machine lets them be. */
export const shortVmTimes: VmTimes = {
  pollMs: 20,
  idleMs: 40,
  staleMs: 2_000,
  checkMs: 200,
  lagMs: 60,
  createWindowMs: 10_000,
  searchMs: 20,
  goneMs: 5_000,
  goneEveryMs: 10,
  ttlMarginMs: 120_000,
  noPlaceMs: 50,
};

/** A strategy that gives identities by name, and remembers what it was asked for. */
export type FakeVmIdentity = VmIdentity & {
  /** The executors that have an identity. */
  readonly bound: ReadonlySet<string>;
  readonly calls: readonly string[];
  /** What a VM lacks, told from now on. */
  lacks(name: string, failure: Failure | undefined): void;
  /** The next call of that kind rejects. */
  failNext(method: "prepare" | "bind" | "revoke" | "run"): void;
  /** As a sweep asks. */
  isThere(name: string, signal: AbortSignal): Promise<boolean>;
};

export function createFakeVmIdentity(): FakeVmIdentity {
  const bound = new Set<string>();
  const calls: string[] = [];
  const lacking = new Map<string, Failure>();
  const failing = new Set<string>();
  let ask: FakeVmIdentity["isThere"] = () => Promise.reject(new Error("it does not run"));
  const called = (method: string, name: string) => {
    calls.push(`${method} ${name}`);
    if (failing.delete(method)) throw new BackendError("retryable", "no answer", { reason: "identity" });
  };
  return {
    bound,
    calls,
    lacks: (name, failure) => {
      if (failure === undefined) lacking.delete(name);
      else lacking.set(name, failure);
    },
    failNext: (method) => {
      failing.add(method);
    },
    isThere: (name, signal) => ask(name, signal),
    prepare: async ({ assignment, attempt }: ExecutorMetadata) => {
      called("prepare", executorName(assignment, attempt));
      return { SPIFFE_ENDPOINT_SOCKET: "unix:///run/guest/agent.sock" };
    },
    bind: async ({ name }): Promise<Binding> => {
      called("bind", name);
      bound.add(name);
      return { bound: true };
    },
    revoke: async (name) => {
      called("revoke", name);
      bound.delete(name);
    },
    lack: (name) => lacking.get(name),
    run: async (isThere, _onChange, signal) => {
      called("run", "");
      ask = isThere;
      await untilAborted(signal);
      throw signal.reason;
    },
  };
}
