import { DiscardPolicy, RetentionPolicy, StorageType, type StreamConfig } from "nats";
import { z } from "zod";
import { unlessMissing } from "./api-errors.ts";
import { astray } from "./astray.ts";
import { fixed, tighter } from "./difficulty.ts";
import * as field from "./fields.ts";
import type { ResourceKind } from "./resource-kind.ts";
import { empty, storedIn } from "./stream-kind.ts";

const inputs = z.strictObject({
  bucket: field.name,
  /** How many values of a key are kept. */
  history: z.int().min(1).max(64).default(1),
  /** After this a value goes; 0: never. */
  ttlSeconds: field.age,
  storage: field.storage,
  maxBytes: field.limit,
  maxValueBytes: field.limit,
  replicas: field.replicas,
  description: field.description,
  /** Keys whose values are no loss: with these alone it counts as empty. The server knows nothing of it. */
  worthless: z.array(z.string().min(1)).default([]),
  /** Whether older values of a key are no loss either: a shorter history drops them. The server knows nothing of it. */
  worthlessHistory: z.boolean().default(false),
  ...field.permissions,
});

export type KeyValueInputs = z.infer<typeof inputs>;

/** A bucket is a stream with a certain configuration: https://github.com/nats-io/nats-architecture-and-design, ADR-8 */
export const keyValueKind: ResourceKind<KeyValueInputs> = {
  type: "jetstream:index:KeyValue",
  noun: "bucket",
  inputs,
  defaults: inputs.partial().parse({}),
  idInputs: ["bucket"],
  difficulties: (from, to) => [
    ...fixed("bucket", from, to, empty("a bucket cannot be renamed")),
    ...fixed("storage", from, to, empty("the server cannot move a bucket between file and memory")),
    ...(to.worthlessHistory ? [] : tighter("history", from, to, -1)),
    ...tighter("ttlSeconds", from, to, 0),
  ],
  id: ({ bucket }) => bucket,
  obstacles: () => Promise.resolve([]),
  read: async (manager, id) => {
    const info = await unlessMissing(manager.streams.info(streamOf(id)));
    if (info === undefined) return undefined;
    const found = inputs.parse({ bucket: id, ...fromServer(info.config) });
    return { inputs: found, astray: astray(fixedSettings(found), info.config) };
  },
  create: (manager, wanted) => manager.streams.add(forServer(wanted)),
  update: (manager, id, wanted) => manager.streams.update(streamOf(id), forServer(wanted)),
  stored: async (manager, id, known) => {
    const { worthless } = inputs.pick({ worthless: true }).parse({ worthless: known["worthless"] });
    return await storedIn(
      manager,
      streamOf(id),
      worthless.map((key) => `$KV.${id}.${key}`),
    );
  },
  remove: (manager, id) => unlessMissing(manager.streams.delete(streamOf(id))),
};

function streamOf(bucket: string): string {
  return `KV_${bucket}`;
}

/** Of the server's own default, but a bucket with a shorter life of its values has a shorter one. */
const duplicateWindowSeconds = 120;

/** What makes a stream a bucket. */
function fixedSettings({ bucket, ttlSeconds }: Pick<KeyValueInputs, "bucket" | "ttlSeconds">) {
  return {
    subjects: [`$KV.${bucket}.>`],
    discard: DiscardPolicy.New,
    duplicate_window: field.nanoseconds(
      ttlSeconds > 0 ? Math.min(ttlSeconds, duplicateWindowSeconds) : duplicateWindowSeconds,
    ),
    max_msgs: -1,
    no_ack: false,
    allow_rollup_hdrs: true,
    deny_delete: true,
    allow_direct: true,
  };
}

function forServer(wanted: KeyValueInputs) {
  return {
    ...fixedSettings(wanted),
    name: streamOf(wanted.bucket),
    retention: RetentionPolicy.Limits,
    storage: wanted.storage === "file" ? StorageType.File : StorageType.Memory,
    max_age: field.nanoseconds(wanted.ttlSeconds),
    max_bytes: wanted.maxBytes,
    max_msg_size: wanted.maxValueBytes,
    max_msgs_per_subject: wanted.history,
    num_replicas: wanted.replicas,
    description: wanted.description,
  };
}

function fromServer(config: StreamConfig) {
  return {
    history: config.max_msgs_per_subject,
    ttlSeconds: field.seconds(config.max_age),
    storage: config.storage,
    maxBytes: config.max_bytes,
    maxValueBytes: config.max_msg_size,
    replicas: config.num_replicas,
    description: config.description,
  };
}
