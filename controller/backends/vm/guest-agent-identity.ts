import type { SpiffeId } from "../../identity/spiffe-id.ts";
import { executorName, ownerLabel, backendLabel } from "../../assignment/executor-metadata.ts";
import { createApiCollection } from "../../kubernetes/api-collection.ts";
import type { KubernetesApi } from "../../kubernetes/kubernetes-api.ts";
import { staticEntryApi } from "../../kubernetes/permissions.ts";
import { createWatchedList } from "../../kubernetes/watched-list.ts";
import type { Random } from "../../platform/backoff.ts";
import type { Clock, SteadyClock } from "../../platform/clock.ts";
import { describeError } from "../../platform/errors.ts";
import type { Logger } from "../../platform/logger.ts";
import { runTasks } from "../../platform/task-group.ts";
import { createEntryKeeper, type EntryKeeper } from "../../static-entries/entry-keeper.ts";
import type { StaticEntrySettings } from "../../static-entries/static-entry.ts";
import { asBackend } from "../as-backend.ts";
import { BackendError } from "../backend.ts";
import { agentIdOf, agentToken } from "./agent-token.ts";
import { checkIdentity } from "./check-identity.ts";
import { agentsOf, awaitAgentOf, type GuestAgent, type GuestAgents } from "./guest-agents.ts";
import { guestAgentEnvironment, guestEnvironment, type GuestSettings } from "./guest-environment.ts";
import { createMissingAgents } from "./missing-agents.ts";
import { sweepGuests } from "./sweep-guests.ts";
import { tellLacks } from "./tell-lacks.ts";
import type { VmIdentity } from "./vm-identity.ts";

export type GuestAgentOptions = GuestSettings & {
  readonly owner: string;
  readonly trustDomain: string;
  readonly agents: GuestAgents;
  /** `host:port` of SPIRE's server, as a VM dials it. */
  readonly server: string;
  /** The CAs of the trust domain at this moment, as PEM. Throws if they are not known. */
  readonly bundle: () => string;
  /** How long a token counts: until a VM that has not started by then is given up. */
  readonly tokenTtlSeconds: number;
  /** Unpredictable: 32 hexadecimal digits. */
  readonly newToken: () => string;
  /** The cluster of the spire-controller-manager that makes the entries. */
  readonly api: KubernetesApi;
  readonly entries: StaticEntrySettings;
  readonly clock: Clock;
  readonly steady: SteadyClock;
  readonly random: Random;
  readonly log: Logger;
};

const agentWaitMs = 10_000;
const mostAsked = 1_000;

/**
 * Each VM runs an agent of its own, which joins by a token that counts once. Only when it has joined there is an entry:
 * for the job's user, in the eyes of exactly this agent. The token is kept in no resource: who joined by it is in the agent's
 * ID, and which of several it has to be whoever asked for the VM remembers.
 */
export function createGuestAgentIdentity(options: GuestAgentOptions): VmIdentity {
  const { owner, trustDomain, agents, uid, clock, steady, random, log } = options;
  const path = `/apis/${staticEntryApi.group}/${staticEntryApi.version}/${staticEntryApi.resource}`;
  const labelSelector = `${ownerLabel}=${owner},${backendLabel}=vm`;
  const list = createWatchedList({ api: options.api, path, labelSelector, clock, steady, random, log });
  let listener: ((name: string) => void) | undefined;
  const keeper = createEntryKeeper({
    entries: list,
    collection: createApiCollection(options.api, path),
    owner,
    kind: "vm",
    settings: options.entries,
    onChange: (name) => listener?.(name),
    clock,
    steady,
  });
  const missing = createMissingAgents(steady);
  /** The agents of the VMs that this process has asked for last, by executor. */
  const asked = new Map<string, SpiffeId>();
  const lack = (name: string) => keeper.lack(name) ?? missing.lack(name);

  const prepare: VmIdentity["prepare"] = async (metadata, signal) => {
    checkIdentity(metadata, trustDomain);
    const token = agentToken(metadata, options.newToken(), trustDomain);
    const bundle = options.bundle();
    await agents.createJoinToken(token, options.tokenTtlSeconds, signal);
    remember(executorName(metadata.assignment, metadata.attempt), agentIdOf(token, trustDomain));
    return {
      ...guestEnvironment(options),
      ...guestAgentEnvironment({ token, server: options.server, trustDomain, bundle }),
    };
  };

  const remember = (name: string, agent: SpiffeId) => {
    asked.delete(name);
    asked.set(name, agent);
    const [oldest] = asked.keys();
    if (asked.size > mostAsked && oldest !== undefined) asked.delete(oldest);
  };

  /** One of a VM that was taken back may still be known under the same executor, and its VM is gone. */
  const wantedOf = (name: string) => (joined: readonly GuestAgent[]) => {
    const [entry, own] = [parentOf(keeper, name), asked.get(name)];
    const bound = joined.find(({ id }) => id === entry);
    return bound ?? (own === undefined ? joined[0] : joined.find(({ id }) => id === own));
  };

  /** What keeps SPIRE's server from telling keeps the job from its identity, which the job's log has to say. */
  const lookFor = async (name: string, signal: AbortSignal) => {
    try {
      return await awaitAgentOf(name, wantedOf(name), agentWaitMs, options, signal);
    } catch (cause) {
      signal.throwIfAborted();
      const doing = `looking for the agent of ${name}`;
      missing.missed(name, `${doing}: ${describeError(cause)}`);
      throw new BackendError("retryable", doing, { cause, reason: "identity" });
    }
  };

  const bind: VmIdentity["bind"] = async ({ name, metadata }, signal) => {
    checkIdentity(metadata, trustDomain);
    const agent = await lookFor(name, signal);
    if (agent === undefined) {
      missing.missed(name);
      return { bound: false };
    }
    missing.found(name);
    // A host's agent cannot see into a guest, and the guest's sees no Pods: the user is all there is to go by.
    const target = { parentId: agent.id, selectors: [`unix:uid:${uid}`] };
    await keeper.add(metadata, target, signal);
    return { bound: true };
  };

  /** An agent without an entry gives nobody anything: it may stay for the sweep, and the VM must not. */
  const revoke: VmIdentity["revoke"] = async (name, signal) => {
    missing.found(name);
    await keeper.remove(name, signal);
    asked.delete(name);
    try {
      for (const { id } of await agentsOf(name, options, signal)) await agents.delete(id, signal);
    } catch (error) {
      signal.throwIfAborted();
      log.warn(
        { executor: name, error: describeError(error) },
        "agent of a vm not evicted, it is swept later",
      );
    }
  };

  return {
    prepare: (metadata, signal) =>
      asBackend(
        `preparing the identity of ${executorName(metadata.assignment, metadata.attempt)}`,
        () => prepare(metadata, signal),
        signal,
      ),
    bind: (executor, signal) =>
      asBackend(`registering ${executor.name}`, () => bind(executor, signal), signal),
    revoke: (name, signal) =>
      asBackend(`taking back the identity of ${name}`, () => revoke(name, signal), signal),
    lack,
    run: (isThere, onChange, signal) => {
      listener = onChange;
      const names = () => [...keeper.all().map(({ name }) => name), ...missing.names()];
      return runTasks(
        [
          { name: "watching entries", run: (abort) => list.run(abort) },
          {
            name: "lacks of identities",
            run: (abort) => tellLacks({ names, lack, onChange, clock }, abort),
          },
          ...sweepGuests({ owner, entries: keeper, agents, isThere, clock, steady, log }),
        ],
        signal,
      );
    },
  };
}

function parentOf(keeper: Pick<EntryKeeper, "get">, name: string): string | undefined {
  return keeper.get(name)?.document.spec.parentID;
}
