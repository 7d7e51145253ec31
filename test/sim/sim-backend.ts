import { type Backend, BackendError } from "../../controller/backends/backend.ts";
import type { Observe } from "./observed.ts";
import type { SimCluster } from "./sim-cluster.ts";
import type { SimNetwork } from "./sim-network.ts";
import type { SimProcess } from "./sim-process.ts";
import { callTimeouts } from "./sim-times.ts";

export type SimBackendOptions = {
  readonly cluster: SimCluster;
  readonly network: SimNetwork;
  readonly process: SimProcess;
  readonly observe: Observe;
};

/** A cluster as one process sees it. */
export function createSimBackend({ cluster, network, process, observe }: SimBackendOptions): Backend {
  const { kind } = cluster;
  const { backendMs: timeoutMs } = callTimeouts;
  const lost = (why: string) => new BackendError("retryable", why);
  const ask = <T>(what: string, effect: () => T, signal: AbortSignal, once = false) =>
    network.call(
      { from: process, to: "backend", what: `${kind} ${what}`, timeoutMs, lost, once, effect },
      signal,
    );
  return {
    kind,
    list: (signal) => ask("list", () => ({ executors: cluster.seen(), invalid: [] }), signal),
    create: (request, signal) => ask("create", () => cluster.create(request), signal, true),
    bindIdentity: (_executor, signal) => ask("bind", () => ({ bound: true }) as const, signal),
    markTerminal: (name, signal) => ask(`mark ${name}`, () => cluster.markTerminal(name), signal),
    kill: (name, reason, signal) =>
      ask(
        `kill ${name}`,
        () => {
          observe({ kind: "remove", executor: name, how: "kill" });
          cluster.end(name, reason, "killed");
        },
        signal,
      ),
    delete: (name, signal) =>
      ask(
        `delete ${name}`,
        () => {
          observe({ kind: "remove", executor: name, how: "delete" });
          cluster.remove(name);
        },
        signal,
      ),
    onChange: (listener) =>
      cluster.onChange(() => {
        process.deliver(listener);
      }),
  };
}
