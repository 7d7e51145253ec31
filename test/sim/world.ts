import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import { describeError } from "../../controller/platform/errors.ts";
import { parseKeyRing } from "../../controller/identity/key-ring.ts";
import { createFacts, type Facts } from "./facts.ts";
import { createLiveChecks } from "./live-checks.ts";
import { createHistory, type History } from "./history.ts";
import { createIntruder, type IntruderKind } from "./intruder.ts";
import { createLeadership, type Keys, type Leadership } from "./leadership.ts";
import { createMoments, type Moments } from "./moments.ts";
import type { Observed } from "./observed.ts";
import { createPrng } from "./prng.ts";
import { createSimClock, type SimClock } from "./sim-clock.ts";
import { createSimCluster, type SimCluster } from "./sim-cluster.ts";
import { simOwner, simTrustDomain, startSimController } from "./sim-controller.ts";
import { createSimFacade } from "./sim-facade.ts";
import { createSimGitea, type SimGitea } from "./sim-gitea.ts";
import { createSimBucket, type SimBucket } from "./sim-key-value.ts";
import { createSimNetwork, type SimNetwork } from "./sim-network.ts";
import { createSimStream, type SimStream } from "./sim-stream.ts";
import { createHosts, type Hosts } from "./hosts.ts";
import { createTroubles, type Troubles } from "./troubles.ts";
import { createWriteAhead } from "./write-ahead.ts";

export type World = {
  readonly clock: SimClock;
  readonly startedAt: number;
  readonly history: History;
  readonly network: SimNetwork;
  readonly gitea: SimGitea;
  readonly stream: SimStream;
  readonly bucket: SimBucket;
  readonly clusters: Readonly<Record<BackendKind, SimCluster>>;
  readonly hosts: Hosts;
  readonly leadership: Leadership;
  readonly facts: Facts;
  readonly moments: Moments;
  readonly troubles: Troubles;
  /** Somebody who is not the `nth` executor calls as if. */
  intrude(nth: number, as: IntruderKind): void;
  /** How often what reached the peers: everything that is no question. */
  readonly effects: ReadonlyMap<string, number>;
  /** What a peer has seen that must never be. */
  readonly outrages: readonly string[];
  readonly outrage: (what: string) => void;
};

export type WorldOptions = {
  readonly seed: number;
  readonly capacity: Readonly<Record<BackendKind, number>>;
  readonly keepHistory: boolean;
};

const keys = { first: "11".repeat(32), other: "22".repeat(32) } as const;
/** The first key of a ring signs and seals. */
const keyRings = {
  first: { ring: parseKeyRing(keys.first), ids: ["first"] },
  other: { ring: parseKeyRing(keys.other), ids: ["other"] },
  both: { ring: parseKeyRing(`${keys.first}\n${keys.other}`), ids: ["first", "other"] },
} as const satisfies Readonly<Record<Keys, unknown>>;

/** Everything that a plan happens to, well and idle; a controller leads. */
export function createWorld({ seed, capacity, keepHistory }: WorldOptions): World {
  const startedAt = Date.parse("2026-01-01T00:00:00Z");
  const clock = createSimClock(startedAt);
  const prng = createPrng(seed).fork("world");
  const history = createHistory(clock, keepHistory);
  const troubles = createTroubles(clock);
  const outrages: string[] = [];
  const moments = createMoments(clock);
  const facts: Facts = createFacts({
    clock,
    isRemembered: () => leadership.leader()?.serves === true,
    moments,
    recordOf: (id) => bucket.recordOf(id),
  });
  // What was written is asked before the facts take the event in.
  const effects = new Map<string, number>();
  const observe = (event: Observed) => {
    effects.set(event.kind, (effects.get(event.kind) ?? 0) + 1);
    try {
      writeAhead.observe(event);
      checks.observe(event);
      facts.observe(event);
    } catch (error) {
      outrage(`the simulation is broken: ${describeError(error)}`);
    }
  };

  const network = createSimNetwork({ clock, prng: prng.fork("network"), history });
  const gitea = createSimGitea({ clock, network, observe });
  const stream = createSimStream({ clock, observe, capacity });
  const bucket = createSimBucket({ network, observe });
  const facade = createSimFacade({ network, prng: prng.fork("facade") });
  const hosts = createHosts({
    clock,
    prng: prng.fork("hosts"),
    history,
    facade,
    facts,
    moments,
    onClaimed: (job, instance, ended) => {
      if (!ended) job.claims.add(instance);
      job.claimedAt ??= clock.now();
      if (!ended) checks.claimed(job);
      writeAhead.claimed(job, instance, ended);
    },
    onRun: (job) => {
      checks.ran(job);
    },
    onBroken: (error) => {
      outrage(`the simulation is broken: ${describeError(error)}`);
    },
  });
  const clusterOf = (kind: BackendKind) =>
    createSimCluster({
      kind,
      owner: simOwner,
      trustDomain: simTrustDomain,
      clock,
      prng: prng.fork(kind),
      history,
      observe,
      boot: (name, request, over) => hosts.boot(name, request, over),
    });
  const clusters = { pod: clusterOf("pod"), vm: clusterOf("vm") };
  const outrage = (what: string) => {
    outrages.push(what);
    history.note(`OUTRAGE: ${what}`);
  };
  const writeAhead = createWriteAhead({ facts, bucket, stream, clusters, outrage });
  const { model } = gitea;
  const checks = createLiveChecks({ clock, facts, model, clusters, capacity, troubles, outrage });

  let controllers = 0;
  const start = (held: Keys, onServing: () => void) => {
    const name = `controller-${++controllers}`;
    history.note(`${name} leads`);
    return startSimController({
      name,
      clock,
      prng: prng.fork(name),
      history,
      observe,
      network,
      gitea,
      stream,
      bucket,
      facade,
      backends: [
        { cluster: clusters.pod, capacity: capacity.pod },
        { cluster: clusters.vm, capacity: capacity.vm },
      ],
      keyRing: keyRings[held].ring,
      keyIds: keyRings[held].ids,
      onServing,
    });
  };
  const leadership: Leadership = createLeadership({ clock, facts, troubles, start });

  return {
    clock,
    startedAt,
    history,
    network,
    gitea,
    stream,
    bucket,
    clusters,
    hosts,
    leadership,
    facts,
    moments,
    troubles,
    intrude: createIntruder({ clock, facade, facts, hosts, outrage }),
    effects,
    outrages,
    outrage,
  };
}
