import type { Backend } from "./backends/backend.ts";
import type { CorePorts } from "./core-ports.ts";
import type { CompareStreamOptions } from "./lifecycle/compare-stream.ts";
import type { Delivery } from "./worker/delivery.ts";

/** Throws if this process leads no more. Called right before whatever only a leader may do. */
export type MustLead = () => void;

/** The backend, with nothing created, given an identity, killed or deleted by a process that leads no more. */
export function backendOfLeader(backend: Backend, mustLead: MustLead): Backend {
  const { commandFor } = backend;
  return {
    kind: backend.kind,
    list: (signal) => backend.list(signal),
    create: async (...call) => {
      mustLead();
      return backend.create(...call);
    },
    bindIdentity: async (...call) => {
      mustLead();
      return backend.bindIdentity(...call);
    },
    // Whoever has told Gitea the end says so on the executor.
    markTerminal: (...call) => backend.markTerminal(...call),
    kill: async (...call) => {
      mustLead();
      return backend.kill(...call);
    },
    delete: async (...call) => {
      mustLead();
      return backend.delete(...call);
    },
    onChange: (listener) => backend.onChange(listener),
    ...(commandFor === undefined ? {} : { commandFor }),
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
    remove: async (...call) => {
      mustLead();
      return queue.remove(...call);
    },
    publish: async (...call) => {
      mustLead();
      return queue.publish(...call);
    },
    scan: (signal) => queue.scan(signal),
    scanAfter: (...call) => queue.scanAfter(...call),
    has: (...call) => queue.has(...call),
    position: (signal) => queue.position(signal),
  };
}

/** Gitea, with no end told and no row written by a process that leads no more. */
export function giteaOfLeader(gitea: CorePorts["gitea"], mustLead: MustLead): CorePorts["gitea"] {
  return {
    declare: async (...call) => {
      mustLead();
      return gitea.declare(...call);
    },
    fetchTask: async (...call) => {
      mustLead();
      return gitea.fetchTask(...call);
    },
    updateTask: async (...call) => {
      mustLead();
      return gitea.updateTask(...call);
    },
    updateLog: async (...call) => {
      mustLead();
      return gitea.updateLog(...call);
    },
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
    acknowledge: async (signal) => {
      mustLead();
      return delivery.acknowledge(signal);
    },
  };
}
