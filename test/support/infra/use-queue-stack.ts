import { after, before } from "mocha";
import {
  connect,
  type ConsumerConfig,
  type JetStreamManager,
  type NatsConnection,
  type StreamConfig,
} from "nats";
import { type NatsUnderTest, useNats } from "../nats.ts";
import { stackSettings } from "./stack-settings.ts";
import { type PulumiUnderTest, type Stack, usePulumi } from "./use-pulumi.ts";

/** Secrets of a stack, to be looked for where they must not be; the password is the server's. */
export const planted = {
  giteaRunnerToken: "planted-token-of-the-runner",
  natsPassword: "planted-password-of-nats",
  capabilityKeys: "planted-capability-keys-of-32-characters",
  openSandboxApiKey: "planted-key-of-opensandbox",
} as const;

export type QueueStack = {
  readonly nats: NatsUnderTest;
  readonly pulumi: PulumiUnderTest;
  readonly stack: Stack;
  /** As whoever administers the server by hand. */
  readonly server: JetStreamManager;
  /** Says anew what the stack's file says: settings beside the least that there have to be, and properties to be changed. */
  readonly configure: (
    overrides?: Readonly<Record<string, unknown>>,
    properties?: Readonly<Record<string, object>>,
  ) => Promise<void>;
  /** What is on the server, in the order of names. */
  readonly everything: () => Promise<{
    readonly streams: readonly StreamConfig[];
    readonly consumers: readonly ConsumerConfig[];
  }>;
  /** What is stored in each stream, and when streams and consumers were made. */
  readonly stored: () => Promise<readonly unknown[]>;
  publish(subject: string): Promise<void>;
};

/** Registers hooks that make a NATS server, an engine, and on it a stack `prod` of the queue alone, not brought up. */
export function useQueueStack(): QueueStack {
  const pulumi = usePulumi();
  const nats = useNats({ password: planted.natsPassword });
  let connection: NatsConnection | undefined;
  let server: JetStreamManager | undefined;
  let made: Stack | undefined;
  const there = <Value>(value: Value | undefined): Value => {
    if (value === undefined) throw new Error("the stack of this test is not made yet");
    return value;
  };
  before("make a stack", async () => {
    connection = await connect({
      servers: nats.url,
      user: nats.user,
      pass: nats.password,
      // A test may stop the server for as long as a command takes.
      maxReconnectAttempts: -1,
    });
    server = await connection.jetstreamManager();
    made = await pulumi.stack("prod", { program: "queue", secrets: planted });
  });
  after("close the connection", () => connection?.close());
  const stack: Stack = {
    get folder() {
      return there(made).folder;
    },
    configure: (...args) => there(made).configure(...args),
    run: (...args) => there(made).run(...args),
    done: (...args) => there(made).done(...args),
    refused: (...args) => there(made).refused(...args),
    resources: () => there(made).resources(),
    plan: (...options) => there(made).plan(...options),
  };
  return {
    nats,
    pulumi,
    stack,
    get server() {
      return there(server);
    },
    configure: (overrides, properties) => {
      const { nats: changed = {}, ...others } = overrides ?? {};
      const own = { url: nats.url, user: nats.user, ...(changed as object) };
      return stack.configure(stackSettings({ ...others, nats: own }), properties);
    },
    everything: async () => {
      const list = await Array.fromAsync(there(server).streams.list(), ({ config }) => config);
      const streams = list.toSorted((one, other) => one.name.localeCompare(other.name));
      const consumers = await Promise.all(
        streams.map(({ name }) =>
          Array.fromAsync(there(server).consumers.list(name), ({ config }) => config),
        ),
      );
      return { streams, consumers: consumers.flat().toSorted(byDurable) };
    },
    stored: async () => {
      const streams = await Array.fromAsync(there(server).streams.list());
      const consumers = await Array.fromAsync(there(server).consumers.list("CI_RUNNER"));
      return [
        ...streams.map(({ config, created, state }) => [
          config.name,
          created,
          state.messages,
          state.last_seq,
        ]),
        ...consumers.map(({ name, created, num_pending: waiting }) => [name, created, waiting]),
      ];
    },
    publish: async (subject) => {
      await there(connection).jetstream().publish(subject, "a job");
    },
  };
}

function byDurable(one: ConsumerConfig, other: ConsumerConfig): number {
  return (one.durable_name ?? "").localeCompare(other.durable_name ?? "");
}
