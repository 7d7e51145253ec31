import { readFileSync } from "node:fs";
import { z } from "zod";
import { backendKinds, type BackendKind } from "./assignment/backend-kind.ts";
import { parseKeyRing } from "./identity/key-ring.ts";
import { parseSpiffeId, parseTrustDomain } from "./identity/spiffe-id.ts";
import { logLevels } from "./platform/logger.ts";
import { parseEndpoint } from "./spiffe/endpoint.ts";

/** What is wrong with the configuration, all of it, by variable name. Nothing but an operator can help. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";

  constructor(mistakes: readonly string[]) {
    super(`the configuration is not usable: ${mistakes.join("; ")}`);
  }
}

const components = ["scheduler", "pod-worker", "vm-worker"] as const;

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads a file whole; replaced in tests. */
type ReadFile = (path: string) => string;

const text = z.string().min(1);

/**
 * A message never quotes what the variable holds: it may be a secret that belongs into a file, or a path that is
 * one by mistake.
 */
function checked(isGood: (value: string) => unknown, mistake?: string) {
  return text.superRefine((value, context) => {
    try {
      if (isGood(value) !== false) return;
    } catch (error) {
      if (mistake === undefined) {
        context.addIssue({ code: "custom", message: error instanceof Error ? error.message : "not valid" });
        return;
      }
    }
    context.addIssue({ code: "custom", message: mistake ?? "it is not valid" });
  });
}

/** An address without what has no meaning in it, a password least of all: secrets come from files only. */
function isBareUrl(value: string, protocols: readonly string[]): boolean {
  const { protocol, username, password, search, hash } = new URL(value);
  return protocols.includes(protocol) && [username, password, search, hash].every((part) => part === "");
}
const webAddress = "it is not an http or https address without user, password, query and fragment";
const url = checked((value) => isBareUrl(value, ["http:", "https:"]), webAddress).transform((value) =>
  value.replace(/\/+$/, ""),
);
const natsAddress = /^(nats|tls):\/\/[^\s/@,?#]+$/;
const natsUrl = checked(
  (value) => value.split(",").every((server) => natsAddress.test(server.trim())),
  "it is not nats://host:port or tls://host:port (several divided by commas) without user and password",
);
const integer = (least: number) =>
  checked(
    (value) => /^[0-9]{1,9}$/.test(value) && Number(value) >= least,
    `it is not a whole number of at least ${least}`,
  ).transform(Number);
const list = z
  .string()
  .default(components.join(","))
  .transform((value) => value.split(",").map((part) => part.trim()))
  .pipe(z.array(z.enum(components)).min(1));
const flag = z
  .enum(["true", "false"])
  .default("false")
  .transform((value) => value === "true");
const listenAddress = /^(?<host>|[^:\s]+|\[[0-9a-fA-F:]+\]):(?<port>[0-9]{1,5})$/;
/** `host:port` or `:port`. */
const listen = (otherwise: string) =>
  checked(
    (value) => Number(listenAddress.exec(value)?.groups?.["port"] ?? Infinity) <= 65_535,
    "it is not host:port or :port",
  )
    .default(otherwise)
    .transform((value) => {
      const { host = "", port } = listenAddress.exec(value)?.groups ?? {};
      const bare = host.replace(/^\[|\]$/g, "");
      return { host: bare === "" ? undefined : bare, port: Number(port) };
    });
const absolutePath = text.regex(/^\//, "it is not an absolute path");

function schemaFor(readFile: ReadFile) {
  const read = (path: string) => {
    try {
      return readFile(path);
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : "unknown error";
      throw new Error(`the file that it names cannot be read (${code})`, { cause: error });
    }
  };
  const secret = (path: string) => {
    const value = read(path).trim();
    if (value === "") throw new Error("the file that it names is empty");
    return value;
  };
  const secretFile = checked(secret).transform(secret);
  const keyRing = (path: string) => {
    const lines = read(path);
    try {
      return parseKeyRing(lines);
    } catch (error) {
      throw new Error(`in the file that it names: ${error instanceof Error ? error.message : ""}`, {
        cause: error,
      });
    }
  };
  return z.object({
    GITEA_URL: url,
    GITEA_RUNNER_UUID: text.regex(/^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/, "it is not a UUID"),
    GITEA_RUNNER_TOKEN_FILE: secretFile,
    NATS_URL: natsUrl,
    NATS_USER: text,
    NATS_PASSWORD_FILE: secretFile,
    NATS_CA_FILE: checked(secret).optional(),
    NATS_STREAM: text.regex(/^[A-Za-z0-9_-]+$/, "it is not a stream name").default("CI_RUNNER"),
    NATS_SUBJECT_BASE: text.regex(/^[A-Za-z0-9_.-]+$/, "it is not a subject").default("ci.assignment"),
    TRUST_DOMAIN: checked(parseTrustDomain, "it is not a trust domain, as in example.org"),
    SPIFFE_ENDPOINT_SOCKET: checked(parseEndpoint, "it is not unix:///absolute/path or tcp://IP:port"),
    RUNNER_FACADE_LISTEN: listen(":8443"),
    RUNNER_FACADE_URL: checked((value) => isBareUrl(value, ["https:"]), "it is not an https address"),
    RUNNER_FACADE_SPIFFE_ID: checked(
      parseSpiffeId,
      "it is not a SPIFFE ID, as in spiffe://example.org/facade",
    ),
    CAPABILITY_KEY_FILE: checked(keyRing).transform(keyRing),
    COMPONENTS: list,
    POD_BACKEND: z.enum(["kubernetes", "local"]).default("kubernetes"),
    POD_EXECUTOR_IMAGE: text.optional(),
    POD_CAPACITY: integer(1).default(4),
    POD_BACKLOG: integer(1).optional(),
    POD_TIMEOUT_SECONDS: integer(60).default(14_400),
    POD_ALLOW_FORKS: flag,
    SPIRE_AGENT_ID: text.optional(),
    VM_BACKEND: z.enum(["opensandbox", "local"]).default("opensandbox"),
    VM_RUNNER_LABEL: text.default("vm"),
    VM_CAPACITY: integer(1).default(1),
    VM_BACKLOG: integer(1).optional(),
    VM_TIMEOUT_SECONDS: integer(60).default(14_400),
    OPENSANDBOX_API: url.optional(),
    OPENSANDBOX_API_KEY_FILE: secretFile.optional(),
    LOCAL_FOLDER: absolutePath.optional(),
    LOCAL_WORKLOAD_API_FOLDER: absolutePath.optional(),
    GITEA_RUNNER_BINARY: absolutePath.optional(),
    HEALTH_LISTEN: listen(":8080"),
    LOG_LEVEL: z.enum(logLevels).default("info"),
    HOSTNAME: text.default("controller"),
    NODE_ENV: z.string().optional(),
  });
}

type Variables = z.infer<ReturnType<typeof schemaFor>>;

/** Where the executors of one backend run, as far as that backend's kind needs to know. */
export type BackendConfig = {
  readonly kind: BackendKind;
  readonly runsOn: "kubernetes" | "opensandbox" | "local";
  readonly capacity: number;
  /** How many of its tasks may wait for a slot before no more are fetched. */
  readonly backlog: number;
  readonly timeoutSeconds: number;
};

/** The quick start's executors: child processes below one folder. */
export type LocalConfig = {
  readonly folder: string;
  readonly workloadApiFolder: string;
  readonly giteaRunnerBinary: string;
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
  const given = relevant(environment);
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

/**
 * The variables that count. An empty one is what a manifest leaves behind, it is as good as absent; what belongs
 * to a component that is not selected is not looked at.
 */
function relevant(environment: Environment): Environment {
  const set = Object.entries(environment).filter(([, value]) => value !== "");
  const given: Environment = Object.fromEntries(set);
  const selected = selectedComponents(given);
  const vm = selected.includes("vm-worker");
  const sandbox = vm && given["VM_BACKEND"] !== "local";
  return Object.fromEntries(
    set.filter(
      ([name]) =>
        (selected.includes("pod-worker") || !/^(POD|SPIRE)_/.test(name)) &&
        (vm || !name.startsWith("VM_")) &&
        (sandbox || !name.startsWith("OPENSANDBOX_")),
    ),
  );
}

function selectedComponents(given: Environment): readonly string[] {
  return (given["COMPONENTS"] ?? components.join(",")).split(",").map((part) => part.trim());
}

/** Seen from the bare environment, so that it is told with all else. */
function contradictions(given: Environment): string[] {
  const selected = selectedComponents(given);
  const mistakes: string[] = [];
  const known = selected.every((part) => components.some((component) => component === part));
  if (known && !selected.includes("scheduler"))
    mistakes.push("COMPONENTS: a worker needs the scheduler in the same process, claims live there");
  if (known && !selected.includes("pod-worker") && !selected.includes("vm-worker"))
    mistakes.push("COMPONENTS: a scheduler needs a worker");
  if (!["vm", "vm-dev"].includes(given["VM_RUNNER_LABEL"] ?? "vm"))
    mistakes.push("VM_RUNNER_LABEL: it is neither vm nor vm-dev");
  if (given["NODE_ENV"] === "production")
    for (const name of ["POD_BACKEND", "VM_BACKEND"])
      if (given[name] === "local")
        mistakes.push(`${name}: local is for the quick start and tests, never with NODE_ENV=production`);
  const { TRUST_DOMAIN: trustDomain, RUNNER_FACADE_SPIFFE_ID: id } = given;
  if (id !== undefined && trustDomain !== undefined && !id.startsWith(`spiffe://${trustDomain}/`))
    mistakes.push("RUNNER_FACADE_SPIFFE_ID: it is not below TRUST_DOMAIN");
  return mistakes;
}

/** What the selected components need. */
function missingByComponent(given: Environment): string[] {
  const selected = selectedComponents(given);
  const needs: string[] = [];
  if (selected.includes("pod-worker") && given["POD_BACKEND"] !== "local")
    needs.push("POD_EXECUTOR_IMAGE", "SPIRE_AGENT_ID");
  if (selected.includes("vm-worker") && given["VM_BACKEND"] !== "local")
    needs.push("OPENSANDBOX_API", "OPENSANDBOX_API_KEY_FILE");
  if (given["POD_BACKEND"] === "local" || given["VM_BACKEND"] === "local")
    needs.push("LOCAL_FOLDER", "LOCAL_WORKLOAD_API_FOLDER", "GITEA_RUNNER_BINARY");
  return needs.filter((name) => given[name] === undefined).map((name) => `${name} is required`);
}

function usesLocal(variables: Variables): boolean {
  return variables.POD_BACKEND === "local" || variables.VM_BACKEND === "local";
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
  const { OPENSANDBOX_API: api, OPENSANDBOX_API_KEY_FILE: apiKey } = variables;
  const { LOCAL_FOLDER: folder, LOCAL_WORKLOAD_API_FOLDER: workloadApiFolder } = variables;
  const { GITEA_RUNNER_BINARY: giteaRunnerBinary } = variables;
  const local: LocalConfig | undefined =
    usesLocal(variables) &&
    folder !== undefined &&
    workloadApiFolder !== undefined &&
    giteaRunnerBinary !== undefined
      ? { folder, workloadApiFolder, giteaRunnerBinary }
      : undefined;
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
    /** Set if and only if the vm worker is selected and runs there. */
    openSandbox: api === undefined || apiKey === undefined ? undefined : { api, apiKey },
    local,
    healthListen: variables.HEALTH_LISTEN,
    logLevel: variables.LOG_LEVEL,
    hostname: variables.HOSTNAME,
    nodeEnv: variables.NODE_ENV,
  } as const;
}
