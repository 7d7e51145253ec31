import type { Variables } from "./variables.ts";

/** The quick start's executors: child processes below one folder. */
export type LocalConfig = {
  readonly folder: string;
  readonly giteaRunnerBinary: string;
  readonly identity: LocalIdentityConfig;
  /** Offered to jobs. */
  readonly spireAgentBinary: string | undefined;
};

/** Where they get their identities. */
export type LocalIdentityConfig =
  | { readonly kind: "workload-api"; readonly folder: string }
  | {
      readonly kind: "spire";
      readonly serverBinary: string;
      readonly serverSocket: string;
      readonly parentId: string;
      readonly agentSocket: string;
      readonly svidTtlSeconds: number;
    };

/** What `local` needs beside its own switches. */
export function neededForLocal(identity: string | undefined): readonly string[] {
  const always = ["LOCAL_FOLDER", "GITEA_RUNNER_BINARY"];
  if (identity !== "spire") return [...always, "LOCAL_WORKLOAD_API_FOLDER"];
  const spire = ["SERVER_BINARY", "SERVER_SOCKET", "PARENT_ID", "AGENT_SOCKET"];
  return [...always, ...spire.map((name) => `LOCAL_SPIRE_${name}`)];
}

/** Undefined where no backend is `local`; all that is needed is known to be there. */
export function localConfig(variables: Variables): LocalConfig | undefined {
  if (variables.POD_BACKEND !== "local" && variables.VM_BACKEND !== "local") return undefined;
  const { LOCAL_FOLDER: folder, GITEA_RUNNER_BINARY: giteaRunnerBinary } = variables;
  const identity = localIdentity(variables);
  if (folder === undefined || giteaRunnerBinary === undefined || identity === undefined) return undefined;
  return { folder, giteaRunnerBinary, identity, spireAgentBinary: variables.LOCAL_SPIRE_AGENT_BINARY };
}

function localIdentity(variables: Variables): LocalIdentityConfig | undefined {
  if (variables.LOCAL_IDENTITY === "workload-api") {
    const folder = variables.LOCAL_WORKLOAD_API_FOLDER;
    return folder === undefined ? undefined : { kind: "workload-api", folder };
  }
  const { LOCAL_SPIRE_SERVER_BINARY: serverBinary, LOCAL_SPIRE_SERVER_SOCKET: serverSocket } = variables;
  const { LOCAL_SPIRE_PARENT_ID: parentId, LOCAL_SPIRE_AGENT_SOCKET: agentSocket } = variables;
  if (serverBinary === undefined || serverSocket === undefined) return undefined;
  if (parentId === undefined || agentSocket === undefined) return undefined;
  const svidTtlSeconds = variables.LOCAL_SPIRE_SVID_TTL_SECONDS;
  return { kind: "spire", serverBinary, serverSocket, parentId, agentSocket, svidTtlSeconds };
}
