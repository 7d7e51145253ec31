import type { JetStreamManager } from "nats";
import type { z } from "zod";
import type { Difficulty } from "./difficulty.ts";
import type { Properties } from "./property-values.ts";

/** One kind of object of a JetStream server: what it is made from, and the calls. Calls reject as the client does. */
export type ResourceKind<Inputs extends Properties = Properties> = {
  /** As in a URN: `jetstream:index:Stream`. */
  readonly type: string;
  /** For messages: `stream`. */
  readonly noun: string;
  readonly inputs: z.ZodType<Inputs>;
  /** What holds for an input that is not given. */
  readonly defaults: Properties;
  /** The inputs that its id is made of. */
  readonly idInputs: readonly string[];
  /** What is difficult about a change from one to the other. */
  difficulties(from: Inputs, to: Inputs): readonly Difficulty[];
  /** Which object of the server it is. */
  id(inputs: Inputs): string;
  /** What else on the server stands in the way of a new one, a sentence each. */
  obstacles(manager: JetStreamManager, inputs: Inputs): Promise<readonly string[]>;
  /** The object of that id; undefined if there is none. */
  read(manager: JetStreamManager, id: string): Promise<There<Inputs> | undefined>;
  /** Makes it; nothing of that name is there. */
  create(manager: JetStreamManager, inputs: Inputs): Promise<unknown>;
  update(manager: JetStreamManager, id: string, inputs: Inputs): Promise<unknown>;
  /** How many stored messages, of those that matter, go with it. */
  stored(manager: JetStreamManager, id: string, known: Properties): Promise<number>;
  remove(manager: JetStreamManager, id: string): Promise<unknown>;
};

/** An object of the server. */
export type There<Inputs> = {
  readonly inputs: Inputs;
  /** What this kind of object always has in one way, and this one has in another, a sentence each. */
  readonly astray: readonly string[];
};

/** What decides over data, not over the object: it is not on the server. */
export type Permissions = {
  /** Whether an object that is there already may be taken over. */
  readonly adopt: boolean;
  /** Whether a change or a removal may cost stored messages. */
  readonly allowDataLoss: boolean;
};
