import { readFileSync } from "node:fs";
import { backendKinds, type BackendKind } from "./assignment/backend-kind.ts";
import {
  contradictions,
  missingByComponent,
  relevantVariables,
  type Environment,
} from "./config/contradictions.ts";
import { leaseConfig, podConfig } from "./config/kubernetes.ts";
import { localConfig } from "./config/local.ts";
import { withEndless } from "./config/times.ts";
import { vmIdentityConfig } from "./config/vm.ts";
import { schemaFor, type ReadFile, type Variables } from "./config/variables.ts";

/** What is wrong with the configuration, all of it, by variable name. Nothing but an operator can help. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";

  constructor(mistakes: readonly string[]) {
    super(`the configuration is not usable: ${mistakes.join("; ")}`);
  }
}

/** Where the executors of one backend run, as far as that backend's kind needs to know. */
export type BackendConfig = {
  readonly kind: BackendKind;
  readonly runsOn: "kubernetes" | "opensandbox" | "local";
  readonly capacity: number;
  /** How many of its tasks may wait for a slot before no more are fetched. */
  readonly backlog: number;
  readonly timeoutSeconds: number;
};

export type Config = ReturnType<typeof arrange>;

/**
 * Reads the whole configuration from the environment and the files that it names; nothing else of the
 * controller looks at either. Throws ConfigError with every mistake at once.
 */
export function readConfig(
  environment: Environment,
  readFile: ReadFile = (path) => readFileSync(path, "utf8"),
): Config {
  const given = relevantVariables(environment);
  const parsed = schemaFor(readFile).safeParse(given);
  const mistakes = parsed.success
    ? []
    : parsed.error.issues.map(({ path, message, code, ...issue }) => {
        const name = String(path[0]);
        return given[name] === undefined && code === "invalid_type" && !("values" in issue)
          ? `${name} is required`
          : `${name}: ${message}`;
      });
  mistakes.push(...contradictions(given), ...missingByComponent(given));
  if (mistakes.length > 0 || !parsed.success) throw new ConfigError([...new Set(mistakes)].toSorted());
  return arrange(parsed.data);
}

function arrange(variables: Variables) {
  const workers = backendKinds.filter((kind) => variables.COMPONENTS.includes(`${kind}-worker`));
  const backends = workers.map((kind): BackendConfig =>
    kind === "pod"
      ? {
          kind,
          runsOn: variables.POD_BACKEND,
          capacity: variables.POD_CAPACITY,
          backlog: variables.POD_BACKLOG ?? variables.POD_CAPACITY,
          timeoutSeconds: variables.POD_TIMEOUT_SECONDS,
        }
      : {
          kind,
          runsOn: variables.VM_BACKEND,
          capacity: variables.VM_CAPACITY,
          backlog: variables.VM_BACKLOG ?? variables.VM_CAPACITY,
          timeoutSeconds: variables.VM_TIMEOUT_SECONDS,
        },
  );
  const local = localConfig(variables);
  const { OPENSANDBOX_API: api, OPENSANDBOX_API_KEY_FILE: apiKeyFile } = variables;
  const { OPENSANDBOX_CA_FILE: ca } = variables;
  return {
    gitea: {
      url: variables.GITEA_URL,
      uuid: variables.GITEA_RUNNER_UUID,
      token: variables.GITEA_RUNNER_TOKEN_FILE,
    },
    nats: {
      url: variables.NATS_URL,
      user: variables.NATS_USER,
      password: variables.NATS_PASSWORD_FILE,
      caFile: variables.NATS_CA_FILE,
      stream: variables.NATS_STREAM,
      subjectBase: variables.NATS_SUBJECT_BASE,
    },
    trustDomain: variables.TRUST_DOMAIN,
    workloadApi: variables.SPIFFE_ENDPOINT_SOCKET,
    facade: {
      listen: variables.RUNNER_FACADE_LISTEN,
      url: variables.RUNNER_FACADE_URL,
      spiffeId: variables.RUNNER_FACADE_SPIFFE_ID,
    },
    keyRing: variables.CAPABILITY_KEY_FILE,
    backends,
    vmLabel: variables.VM_RUNNER_LABEL,
    allowForksOnPods: variables.POD_ALLOW_FORKS,
    /** Set if and only if the vm worker is selected and runs there. The key's file is read anew for each call. */
    openSandbox:
      api === undefined || apiKeyFile === undefined
        ? undefined
        : { api, apiKeyFile, pool: variables.OPENSANDBOX_POOL, ...(ca === undefined ? {} : { ca }) },
    /** Set if and only if the vm worker is selected and runs there. */
    vmIdentity: vmIdentityConfig(variables),
    local,
    /** Set if and only if the pod worker is selected and makes Pods. */
    kubernetes: podConfig(variables),
    /** Set if and only if no backend is local. */
    lease: leaseConfig(variables, local !== undefined),
    ...withEndless(variables.RUNNER_TIMES, variables.GITEA_ENDLESS_SECONDS),
    healthListen: variables.HEALTH_LISTEN,
    logLevel: variables.LOG_LEVEL,
    hostname: variables.HOSTNAME,
    nodeEnv: variables.NODE_ENV,
  } as const;
}
