import { after, before } from "mocha";
import { connect, type JetStreamManager, type NatsConnection } from "nats";
import { type NatsUnderTest, useNats } from "../nats.ts";
import { repositoryStack } from "./repository-stack.ts";
import { type KubernetesUnderTest, useKubernetes } from "./use-kubernetes.ts";
import { type PulumiUnderTest, type Stack, usePulumi } from "./use-pulumi.ts";
import { planted } from "./use-queue-stack.ts";

export type ClusterStacks = {
  readonly pulumi: PulumiUnderTest;
  readonly nats: NatsUnderTest;
  readonly kubernetes: KubernetesUnderTest;
  /** As whoever administers the NATS server by hand. */
  readonly server: JetStreamManager;
  readonly prod: Stack;
  readonly dev: Stack;
  /** Says anew what a stack's file says: the repository's own, with these settings besides. */
  readonly configure: (name: "prod" | "dev", overrides?: Readonly<Record<string, unknown>>) => Promise<void>;
  /** Names of streams, in order. */
  readonly streams: () => Promise<readonly string[]>;
};

/** The namespaces of both stacks whose Pods nobody runs. */
const controllers = ["gitea-dynamic-runner", "gitea-dynamic-runner-dev"] as const;

/** Registers hooks that make an API server, a NATS server, an engine, and the repository's stacks, not brought up. */
export function useClusterStacks(): ClusterStacks {
  const kubernetes = useKubernetes(controllers);
  const pulumi = usePulumi({
    providers: ["pulumi-resource-kubernetes"],
    besides: () => kubernetes.environment(),
  });
  const nats = useNats({ user: "ci-runner", password: planted.natsPassword });
  let connection: NatsConnection | undefined;
  let state: { readonly server: JetStreamManager; readonly prod: Stack; readonly dev: Stack } | undefined;
  const made = () => {
    if (state === undefined) throw new Error("the stacks of this test are not made yet");
    return state;
  };
  const configure: ClusterStacks["configure"] = (name, overrides) =>
    made()[name].configure(repositoryStack(name, nats.url, overrides));
  before("make the stacks", async () => {
    const { url: servers, user, password: pass } = nats;
    connection = await connect({ servers, user, pass, maxReconnectAttempts: -1 });
    const stack = (name: string) => pulumi.stack(name, { program: "platform", secrets: planted });
    const server = await connection.jetstreamManager();
    state = { server, prod: await stack("prod"), dev: await stack("dev") };
    await configure("prod");
    await configure("dev");
  });
  after("close the connection", () => connection?.close());
  return {
    pulumi,
    nats,
    kubernetes,
    get server() {
      return made().server;
    },
    get prod() {
      return made().prod;
    },
    get dev() {
      return made().dev;
    },
    configure,
    streams: async () => {
      const names = await Array.fromAsync(made().server.streams.list(), ({ config }) => config.name);
      return names.toSorted();
    },
  };
}
