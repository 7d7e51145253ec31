import type { SandboxTask } from "./sandbox-resources.ts";

/** What plays a VM of a pool. */
export type PlayedVm = {
  /** Of its Pod. */
  readonly name: string;
  readonly ip: string;
  /** Its machine has ended, by itself or by `stop`. */
  hasEnded(): boolean;
  /** The task reaches it; resolves once that has begun. Further tasks run beside the first one. */
  run(task: SandboxTask): Promise<void>;
  /** Ends it with all that runs in it, as a crash does. Stopping twice is no error. */
  stop(): Promise<void>;
};

export type VmHost<Vm extends PlayedVm = PlayedVm> = {
  /** `changed` hears that it has ended. */
  start(name: string, changed: () => void, signal: AbortSignal): Promise<Vm>;
};

/** VMs in which nothing runs: the tasks that reach them are written down. */
export function createIdleVms(): VmHost & { readonly tasks: ReadonlyMap<string, readonly SandboxTask[]> } {
  const tasks = new Map<string, SandboxTask[]>();
  return {
    tasks,
    start: async (name, changed) => {
      let isEnded = false;
      const ran: SandboxTask[] = [];
      tasks.set(name, ran);
      return {
        name,
        ip: "10.0.0.7",
        hasEnded: () => isEnded,
        run: async (task) => void ran.push(task),
        stop: async () => {
          isEnded = true;
          changed();
        },
      };
    },
  };
}
