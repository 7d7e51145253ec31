import { type Failure, failureFor } from "../../assignment/failure.ts";
import type { SteadyClock } from "../../platform/clock.ts";

/** The VMs whose agent was looked for and not found. */
export type MissingAgents = {
  /** It has not joined yet; `why`: nobody could tell. */
  missed(name: string, why?: string): void;
  found(name: string): void;
  /** Why that takes so long, when it does. */
  lack(name: string): Failure | undefined;
  names(): readonly string[];
};

/** From the first look on. A VM boots before it, and its agent joins within seconds. */
export const agentGraceMs = 60_000;

const notJoined =
  "the agent in the VM has not joined SPIRE: it does not run, does not reach VM_SPIRE_SERVER, or its token has expired";

export function createMissingAgents(steady: SteadyClock): MissingAgents {
  const since = new Map<string, { readonly at: number; readonly why: string }>();
  return {
    missed: (name, why = notJoined) => void since.set(name, { at: since.get(name)?.at ?? steady(), why }),
    found: (name) => void since.delete(name),
    lack: (name) => {
      const first = since.get(name);
      return first === undefined || steady() - first.at < agentGraceMs
        ? undefined
        : failureFor("identity", first.why);
    },
    names: () => [...since.keys()],
  };
}
