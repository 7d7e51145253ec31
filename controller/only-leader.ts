import type { Backend } from "./backends/backend.ts";
import type { TaskCalls } from "./core-gitea.ts";
import type { CorePorts } from "./core-ports.ts";
import type { CompareStreamOptions } from "./lifecycle/compare-stream.ts";
import type { Delivery } from "./worker/delivery.ts";

/** Throws if this process leads no more. Called right before whatever only a leader may do. */
export type MustLead = () => void;

/** The call, made only by a process that leads; it rejects with the reason if this one does not. */
function guarded<Args extends readonly unknown[], Answer>(
  call: (...args: Args) => Promise<Answer>,
  mustLead: MustLead,
): (...args: Args) => Promise<Answer> {
  return async (...args) => {
    mustLead();
    return call(...args);
  };
}

/** The backend, with nothing created, given an identity, killed or deleted by a process that leads no more. */
export function backendOfLeader(backend: Backend, mustLead: MustLead): Backend {
  const { commandFor, endsUnseen } = backend;
  return {
    kind: backend.kind,
    list: (signal) => backend.list(signal),
    create: guarded((...call) => backend.create(...call), mustLead),
    bindIdentity: guarded((...call) => backend.bindIdentity(...call), mustLead),
    // Whoever has told Gitea the end says so on the executor.
    markTerminal: (...call) => backend.markTerminal(...call),
    kill: guarded((...call) => backend.kill(...call), mustLead),
    delete: guarded((...call) => backend.delete(...call), mustLead),
    onChange: (listener) => backend.onChange(listener),
    ...(commandFor === undefined ? {} : { commandFor }),
    ...(endsUnseen === undefined ? {} : { endsUnseen }),
  };
}

/** What is published by others than the scheduler is a lost message. */
type LeaderQueue = Omit<CorePorts["queue"], "publish"> & CompareStreamOptions["queue"];

/** The queue, with no message stored or taken out by a process that leads no more: what it has in hand it hands back. */
export function queueOfLeader(queue: CorePorts["queue"], mustLead: MustLead): LeaderQueue {
  return {
    next: async (...call) => {
      const delivery = await queue.next(...call);
      return delivery === undefined ? undefined : deliveryOfLeader(delivery, mustLead);
    },
    remove: guarded((...call) => queue.remove(...call), mustLead),
    publish: guarded((...call) => queue.publish(...call), mustLead),
    scan: (signal) => queue.scan(signal),
    scanAfter: (...call) => queue.scanAfter(...call),
    has: (...call) => queue.has(...call),
    position: (signal) => queue.position(signal),
  };
}

/** Gitea, with nothing told and no row written by a process that may not: `guard` throws then. */
export function guardedGitea(gitea: TaskCalls, guard: () => void): TaskCalls {
  return {
    updateTask: guarded((...call) => gitea.updateTask(...call), guard),
    updateLog: guarded((...call) => gitea.updateLog(...call), guard),
  };
}

function deliveryOfLeader(delivery: Delivery, mustLead: MustLead): Delivery {
  return {
    sequence: delivery.sequence,
    deliveryCount: delivery.deliveryCount,
    content: delivery.content,
    inProgress: () => {
      delivery.inProgress();
    },
    retryLater: (ms) => {
      delivery.retryLater(ms);
    },
    reject: (reason) => {
      try {
        mustLead();
      } catch {
        delivery.retryLater(0);
        return;
      }
      delivery.reject(reason);
    },
    acknowledge: guarded((signal) => delivery.acknowledge(signal), mustLead),
  };
}
