import { type Failure, failureFor } from "../../assignment/failure.ts";
import type { SteadyClock } from "../../platform/clock.ts";

/** The VMs whose agent was looked for and has not joined yet. */
export type MissingAgents = {
  missed(name: string): void;
  found(name: string): void;
  /** Why that takes so long, when it does. */
  lack(name: string): Failure | undefined;
  names(): readonly string[];
};

/** From the first look on. A VM boots before it, and its agent joins within seconds. */
export const agentGraceMs = 60_000;

export function createMissingAgents(steady: SteadyClock): MissingAgents {
  const since = new Map<string, number>();
  return {
    missed: (name) => void since.set(name, since.get(name) ?? steady()),
    found: (name) => void since.delete(name),
    lack: (name) => {
      const first = since.get(name);
      return first === undefined || steady() - first < agentGraceMs
        ? undefined
        : failureFor(
            "identity",
            "the agent in the VM has not joined SPIRE: it does not run, does not reach VM_SPIRE_SERVER, or its token has expired",
          );
    },
    names: () => [...since.keys()],
  };
}
