import {
  type CustomResourceOptions,
  type Input,
  type Output,
  CustomResource,
  ProviderResource,
} from "@pulumi/pulumi";
import type { ConnectionInputs } from "./connection.ts";
import type { ConsumerInputs } from "./consumer-kind.ts";
import type { KeyValueInputs } from "./key-value-kind.ts";
import type { StreamInputs } from "./stream-kind.ts";

type Inputs<Properties> = { readonly [Name in keyof Properties]: Input<Properties[Name]> };
type Args<Properties, Required extends keyof Properties> = Inputs<Pick<Properties, Required>> &
  Partial<Inputs<Omit<Properties, Required>>>;

export type JetStreamArgs = Inputs<Pick<ConnectionInputs, "servers">> &
  Partial<Inputs<Omit<ConnectionInputs, "servers" | "version">>>;
export type StreamArgs = Args<StreamInputs, "name" | "subjects">;
export type ConsumerArgs = Args<ConsumerInputs, "stream" | "durable">;
export type KeyValueArgs = Args<KeyValueInputs, "bucket">;

/**
 * The provider says so as well, but a transform of the program's would overrule it: the SDK gives one options in which
 * everything is set.
 */
const deleteFirst = { deleteBeforeReplace: true };

/** A NATS server with JetStream, and as whom to talk to it. Nothing is dialled in a preview. */
export class JetStream extends ProviderResource {
  constructor(name: string, args: JetStreamArgs, options?: CustomResourceOptions) {
    super("jetstream", name, args, options);
  }
}

/** A stream. Changes and removals that would lose messages are refused unless `allowDataLoss` is set. */
export class Stream extends CustomResource {
  declare readonly name: Output<string>;

  constructor(name: string, args: StreamArgs, options?: CustomResourceOptions) {
    super("jetstream:index:Stream", name, args, { ...deleteFirst, ...options });
  }
}

/** A durable pull consumer of a stream. */
export class Consumer extends CustomResource {
  constructor(name: string, args: ConsumerArgs, options?: CustomResourceOptions) {
    super("jetstream:index:Consumer", name, args, { ...deleteFirst, ...options });
  }
}

/** A key-value bucket. */
export class KeyValue extends CustomResource {
  constructor(name: string, args: KeyValueArgs, options?: CustomResourceOptions) {
    super("jetstream:index:KeyValue", name, args, { ...deleteFirst, ...options });
  }
}
