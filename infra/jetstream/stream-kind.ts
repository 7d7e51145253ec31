import { DiscardPolicy, type JetStreamManager, RetentionPolicy, StorageType, type StreamConfig } from "nats";
import { z } from "zod";
import { unlessMissing } from "./api-errors.ts";
import { astray } from "./astray.ts";
import { type Difficulty, fixed, tighter } from "./difficulty.ts";
import * as field from "./fields.ts";
import type { ResourceKind } from "./resource-kind.ts";

const inputs = z.strictObject({
  name: field.name,
  subjects: z.array(field.subject).min(1),
  retention: z.enum(["limits", "interest", "workqueue"]).default("limits"),
  storage: field.storage,
  discard: z.enum(["old", "new"]).default("old"),
  maxAgeSeconds: field.age,
  /** For so long the server knows a message's id again. */
  duplicateWindowSeconds: z.number().positive().default(120),
  maxMessages: field.limit,
  maxBytes: field.limit,
  maxMessageBytes: field.limit,
  maxMessagesPerSubject: field.limit,
  replicas: field.replicas,
  description: field.description,
  ...field.permissions,
});

export type StreamInputs = z.infer<typeof inputs>;

/** https://docs.nats.io/nats-concepts/jetstream/streams */
export const streamKind: ResourceKind<StreamInputs> = {
  type: "jetstream:index:Stream",
  noun: "stream",
  inputs,
  defaults: inputs.partial().parse({}),
  idInputs: ["name"],
  difficulties: (from, to) => [
    ...fixed("name", from, to, empty("a stream cannot be renamed")),
    ...fixed("storage", from, to, empty("the server cannot move a stream between file and memory")),
    ...(from.retention === "workqueue" || to.retention === "workqueue"
      ? fixed("retention", from, to, empty("the server changes no retention to or from workqueue"))
      : []),
    ...forsaken(from.subjects, to.subjects),
    ...tighter("maxAgeSeconds", from, to, 0),
    ...tighter("maxMessages", from, to, -1),
    ...tighter("maxBytes", from, to, -1),
    ...tighter("maxMessagesPerSubject", from, to, -1),
  ],
  id: ({ name }) => name,
  obstacles: async (manager, { name, subjects }) => {
    const found = await Promise.all(subjects.map((subject) => manager.streams.names(subject).next()));
    return subjects.flatMap((subject, index) =>
      (found[index] ?? [])
        .filter((other) => other !== name)
        .map(
          (other) => `subject ${subject} overlaps with those of stream ${other}: no two may take one message`,
        ),
    );
  },
  read: async (manager, id) => {
    const info = await unlessMissing(manager.streams.info(id));
    if (info === undefined) return undefined;
    return { inputs: inputs.parse(fromServer(info.config)), astray: astray(fixedSettings, info.config) };
  },
  create: (manager, wanted) => manager.streams.add(forServer(wanted)),
  update: (manager, id, wanted) => manager.streams.update(id, forServer(wanted)),
  stored: (manager, id) => storedIn(manager, id),
  remove: (manager, id) => unlessMissing(manager.streams.delete(id)),
};

/** How many messages are in the stream of that name, besides those of these subjects; none if there is no such stream. */
export async function storedIn(
  manager: JetStreamManager,
  name: string,
  besides: readonly string[] = [],
): Promise<number> {
  const info = await unlessMissing(manager.streams.info(name, { subjects_filter: ">" }));
  if (info === undefined) return 0;
  const { messages, subjects = {} } = info.state;
  return besides.reduce((left, subject) => left - (subjects[subject] ?? 0), messages);
}

/** Whether every subject that matches the second matches the first. */
function covers(wide: string, narrow: string): boolean {
  const [outer, inner] = [wide.split("."), narrow.split(".")];
  const rest = outer.indexOf(">");
  if (rest === -1 ? outer.length !== inner.length : inner.length <= rest) return false;
  return outer
    .slice(0, rest === -1 ? undefined : rest)
    .every((token, index) => token === inner[index] || (token === "*" && inner[index] !== ">"));
}

/** That a subject goes, with whose messages the stream stays but nobody finds them any more. */
function forsaken(from: readonly string[], to: readonly string[]): readonly Difficulty[] {
  const gone = from.filter((subject) => !to.some((other) => covers(other, subject)));
  if (gone.length === 0) return [];
  const reason = `what is stored of ${gone.join(", ")} stays where no consumer of the new subjects finds it`;
  return [{ property: "subjects", by: "update", losesData: true, reason }];
}

/** Of a change that only a new object can have, with the messages of the old one gone. */
export function empty(why: string) {
  return { reason: `${why}, and a new one is empty`, losesData: true };
}

const retentions = {
  limits: RetentionPolicy.Limits,
  interest: RetentionPolicy.Interest,
  workqueue: RetentionPolicy.Workqueue,
};

/** Whoever publishes waits for the answer. */
const fixedSettings = { no_ack: false };

function forServer(wanted: StreamInputs) {
  return {
    ...fixedSettings,
    name: wanted.name,
    subjects: [...wanted.subjects],
    retention: retentions[wanted.retention],
    storage: wanted.storage === "file" ? StorageType.File : StorageType.Memory,
    discard: wanted.discard === "old" ? DiscardPolicy.Old : DiscardPolicy.New,
    max_age: field.nanoseconds(wanted.maxAgeSeconds),
    duplicate_window: field.nanoseconds(wanted.duplicateWindowSeconds),
    max_msgs: wanted.maxMessages,
    max_bytes: wanted.maxBytes,
    max_msg_size: wanted.maxMessageBytes,
    max_msgs_per_subject: wanted.maxMessagesPerSubject,
    num_replicas: wanted.replicas,
    description: wanted.description,
  };
}

function fromServer(config: StreamConfig) {
  return {
    name: config.name,
    subjects: config.subjects,
    retention: config.retention,
    storage: config.storage,
    discard: config.discard,
    maxAgeSeconds: field.seconds(config.max_age),
    duplicateWindowSeconds: field.seconds(config.duplicate_window),
    maxMessages: config.max_msgs,
    maxBytes: config.max_bytes,
    maxMessageBytes: config.max_msg_size,
    maxMessagesPerSubject: config.max_msgs_per_subject,
    replicas: config.num_replicas,
    description: config.description,
  };
}
