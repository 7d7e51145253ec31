import { executorName } from "../../assignment/executor-metadata.ts";
import { systemSteadyClock } from "../../platform/clock.ts";
import { describeError } from "../../platform/errors.ts";
import { createKeyedQueue } from "../../platform/keyed-queue.ts";
import { abortable } from "../../platform/signal.ts";
import { runTasks } from "../../platform/task-group.ts";
import { createWakeup } from "../../platform/wakeup.ts";
import { asBackend } from "../as-backend.ts";
import type { Backend } from "../backend.ts";
import { createAskedFor } from "./asked-for.ts";
import { bindVm } from "./bind-vm.ts";
import { createVm } from "./create-vm.ts";
import { deleteVm } from "./delete-vm.ts";
import { endVm } from "./end-vm.ts";
import { isThere } from "./is-there.ts";
import { createKnownSandboxes } from "./known-sandboxes.ts";
import { lookAfterVms } from "./look-after-vms.ts";
import { loudApi } from "./loud-api.ts";
import { markTerminal } from "./mark-terminal.ts";
import { createPoolPlaces } from "./pool-places.ts";
import { createSandboxReader } from "./read-sandboxes.ts";
import { defaultVmTimes, type VmBackendOptions } from "./vm-options.ts";
import type { VmWorld } from "./vm-world.ts";

export type VmBackend = Backend & {
  /**
   * Reads all sandboxes again and again and tells of changes, ends what is past its deadline or there twice, removes
   * identities that have no executor, until the signal is aborted. The executors go on without it.
   */
  run(signal: AbortSignal): Promise<void>;
  /** Milliseconds since all sandboxes were read; undefined: never yet. */
  viewAgeMs(): number | undefined;
};

/** What failed by a mistake of ours is begun anew after this. */
const againMs = 30_000;

/** Executors as VMs of an OpenSandbox server's pool. README.md tells how. */
export function createVmBackend(options: VmBackendOptions): VmBackend {
  const { identity, owner, pool, clock, steady = systemSteadyClock, random, log } = options;
  const times = { ...defaultVmTimes, ...options.times };
  const api = loudApi(options.api, clock, log);
  const basics = { api, owner, pool, times, clock, steady, log };
  const lack = (name: string) => identity.lack(name);
  const known = createKnownSandboxes({ ...basics, trustDomain: options.trustDomain, lack });
  const reader = createSandboxReader({ ...basics, known });
  const world: VmWorld = {
    ...basics,
    identity,
    known,
    reader,
    asked: createAskedFor(times, steady),
    places: createPoolPlaces(basics),
    changes: createKeyedQueue(),
  };
  const creates = createKeyedQueue();
  const moved = createWakeup();

  /** A mistake of ours with VMs must not end the process, in which Pods have their jobs. */
  const persistently =
    (run: (signal: AbortSignal) => Promise<void>, doing: string) => async (signal: AbortSignal) => {
      for (;;) {
        try {
          await run(signal);
          signal.throwIfAborted();
          log.error({ doing }, "looking after vms ended by itself");
        } catch (error) {
          signal.throwIfAborted();
          log.error({ doing, error: describeError(error) }, "looking after vms failed");
        }
        await clock.sleep(againMs, signal);
      }
    };
  const lookAfterIdentities = (signal: AbortSignal) =>
    identity.run(
      (name, abort) => isThere(name, world, abort),
      (name) => known.changed(name),
      signal,
    );

  return {
    kind: "vm",
    // A VM waits for a program and outlives it, and the API knows of no program.
    endsUnseen: true,
    list: (signal) =>
      asBackend(
        "listing VMs",
        async () => {
          await reader.refresh(signal);
          return known.listed();
        },
        signal,
      ),
    create: (request, signal) => {
      const { assignment, attempt } = request.metadata;
      const name = executorName(assignment, attempt);
      const create = async () => {
        try {
          return await createVm(request, world, signal);
        } finally {
          moved.wake();
        }
      };
      return asBackend(
        `creating the VM of ${assignment.id}`,
        () => abortable(creates.run(name, create), signal),
        signal,
      );
    },
    bindIdentity: (executor, signal) =>
      asBackend(`giving ${executor.name} its identity`, () => bindVm(executor, world, signal), signal),
    markTerminal: (name, signal) =>
      asBackend(`marking ${name}`, () => markTerminal(name, world, signal), signal),
    kill: (name, reason, signal) =>
      asBackend(`ending ${name}`, () => endVm(name, { reason }, world, signal), signal),
    delete: (name, signal) => asBackend(`deleting ${name}`, () => deleteVm(name, world, signal), signal),
    onChange: (listener) => known.onChange(listener),
    run: (signal) =>
      runTasks(
        [
          {
            name: "looking at VMs",
            run: persistently((abort) => lookAfterVms({ ...world, moved, random }, abort), "looking at VMs"),
          },
          {
            name: "identities of VMs",
            run: persistently(lookAfterIdentities, "identities of VMs"),
          },
        ],
        signal,
      ),
    viewAgeMs: () => reader.ageMs(),
  };
}
