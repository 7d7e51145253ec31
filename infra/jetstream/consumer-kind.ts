import { AckPolicy, type ConsumerConfig, DeliverPolicy, ReplayPolicy } from "nats";
import { z } from "zod";
import { unlessMissing } from "./api-errors.ts";
import { astray } from "./astray.ts";
import { fixed } from "./difficulty.ts";
import * as field from "./fields.ts";
import type { ResourceKind } from "./resource-kind.ts";

const inputs = z.strictObject({
  stream: field.name,
  durable: field.name,
  /** Empty: all that the stream has. */
  filterSubject: z.union([z.literal(""), field.subject]).default(""),
  ackPolicy: z.enum(["explicit", "all", "none"]).default("explicit"),
  ackWaitSeconds: z.number().positive().default(30),
  deliverPolicy: z.enum(["all", "last", "new"]).default("all"),
  /** How often a message is delivered; -1: until it is acked. */
  maxDeliver: field.limit,
  /** How many may be in hand at once; -1: any. */
  maxAckPending: field.limit.default(1000),
  description: field.description,
  ...field.permissions,
});

export type ConsumerInputs = z.infer<typeof inputs>;

/** Durable pull consumers: https://docs.nats.io/nats-concepts/jetstream/consumers */
export const consumerKind: ResourceKind<ConsumerInputs> = {
  type: "jetstream:index:Consumer",
  noun: "consumer",
  inputs,
  defaults: inputs.partial().parse({}),
  idInputs: ["stream", "durable"],
  // What it had in hand is delivered anew: the stream has the messages.
  difficulties: (from, to) => [
    ...fixed("stream", from, to, harmless("a consumer belongs to one stream")),
    ...fixed("durable", from, to, harmless("a consumer cannot be renamed")),
    ...fixed("ackPolicy", from, to, harmless("the server cannot change it")),
    ...fixed("deliverPolicy", from, to, harmless("the server cannot change it")),
    ...(to.filterSubject === ""
      ? fixed("filterSubject", from, to, harmless("the client cannot take a filter away"))
      : []),
  ],
  id: ({ stream, durable }) => `${stream}/${durable}`,
  obstacles: () => Promise.resolve([]),
  read: async (manager, id) => {
    const [stream, durable] = partsOf(id);
    const info = await unlessMissing(manager.consumers.info(stream, durable));
    if (info === undefined) return undefined;
    return {
      inputs: inputs.parse({ stream, durable, ...fromServer(info.config) }),
      astray: astray(fixedSettings, info.config),
    };
  },
  // The client and the server would take a second creation for an update; whoever calls has looked before.
  create: (manager, wanted) => manager.consumers.add(wanted.stream, forServer(wanted)),
  update: (manager, id, wanted) => {
    const [stream, durable] = partsOf(id);
    return manager.consumers.update(stream, durable, forServer(wanted));
  },
  stored: () => Promise.resolve(0),
  remove: (manager, id) => unlessMissing(manager.consumers.delete(...partsOf(id))),
};

function partsOf(id: string): [stream: string, durable: string] {
  const [stream = "", durable = "", ...rest] = id.split("/");
  if (stream === "" || durable === "" || rest.length > 0)
    throw new Error(`${JSON.stringify(id)} is no id of a consumer, as in STREAM/durable`);
  return [stream, durable];
}

function harmless(reason: string) {
  return { reason, losesData: false };
}

const ackPolicies = { explicit: AckPolicy.Explicit, all: AckPolicy.All, none: AckPolicy.None };
const deliverPolicies = { all: DeliverPolicy.All, last: DeliverPolicy.Last, new: DeliverPolicy.New };

/** A backoff would take the place of the ack wait, headers are no message, and who is away may come back. */
const fixedSettings = { backoff: [], headers_only: false, inactive_threshold: 0 };

function forServer(wanted: ConsumerInputs) {
  return {
    ...fixedSettings,
    backoff: [...fixedSettings.backoff],
    durable_name: wanted.durable,
    // The client makes it a part of the call's own subject, where an empty one is none.
    ...(wanted.filterSubject === "" ? {} : { filter_subject: wanted.filterSubject }),
    ack_policy: ackPolicies[wanted.ackPolicy],
    ack_wait: field.nanoseconds(wanted.ackWaitSeconds),
    deliver_policy: deliverPolicies[wanted.deliverPolicy],
    replay_policy: ReplayPolicy.Instant,
    max_deliver: wanted.maxDeliver,
    max_ack_pending: wanted.maxAckPending,
    description: wanted.description,
  };
}

function fromServer(config: ConsumerConfig) {
  return {
    filterSubject: config.filter_subject,
    ackPolicy: config.ack_policy,
    ackWaitSeconds: field.seconds(config.ack_wait),
    deliverPolicy: config.deliver_policy,
    maxDeliver: config.max_deliver,
    maxAckPending: config.max_ack_pending,
    description: config.description,
  };
}
