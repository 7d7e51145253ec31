import { z } from "zod";
import { parseKeyRing } from "../identity/key-ring.ts";
import { parseSpiffeId, parseTrustDomain } from "../identity/spiffe-id.ts";
import { logLevels } from "../platform/logger.ts";
import { dnsPolicies } from "../backends/pod/pod-settings.ts";
import { parseEndpoint } from "../spiffe/endpoint.ts";
import { absolutePath, checked, flag, integer, isBareUrl, listen, natsUrl, text, url } from "./fields.ts";
import {
  agentId,
  dnsLabel,
  labels,
  objectName,
  objectNames,
  patchFile,
  pathSegment,
  resources,
  tolerations,
} from "./pod-fields.ts";
import { parseTimes } from "./times.ts";
import { checkAuthorities, guestSocket, spireServer, spireServerPort, vmIdentities } from "./vm.ts";

/** Reads a file whole; replaced in tests. */
export type ReadFile = (path: string) => string;

/** What `COMPONENTS` may select. */
export const components = ["scheduler", "pod-worker", "vm-worker"] as const;

const list = z
  .string()
  .default(components.join(","))
  .transform((value) => value.split(",").map((part) => part.trim()))
  .pipe(z.array(z.enum(components)).min(1));

/** The form of every variable, each by itself. A file's content takes the place of its path. */
export function schemaFor(readFile: ReadFile) {
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
  const authorities = (path: string) => {
    const pem = secret(path);
    checkAuthorities(pem);
    return pem;
  };
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
    GITEA_ENDLESS_SECONDS: integer(60).optional(),
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
    POD_EXECUTOR_IMAGE: text.regex(/^\S+$/, "it is not the name of an image").optional(),
    POD_EXECUTOR_UID: integer(1).default(2000),
    POD_NAMESPACE: dnsLabel.default("gitea-actions"),
    POD_SERVICE_ACCOUNT: objectName.default("gitea-task-executor"),
    POD_RESOURCES: resources.optional(),
    POD_IMAGE_PULL_SECRETS: objectNames,
    POD_NODE_SELECTOR: labels,
    POD_TOLERATIONS: tolerations.optional(),
    POD_RUNTIME_CLASS: objectName.optional(),
    POD_DNS_POLICY: z.enum(dnsPolicies).optional(),
    POD_PATCH_FILE: patchFile(read).optional(),
    POD_CAPACITY: integer(1).default(4),
    POD_BACKLOG: integer(1).optional(),
    POD_TIMEOUT_SECONDS: integer(60).default(14_400),
    POD_ALLOW_FORKS: flag,
    SPIRE_AGENT_ID: agentId.optional(),
    SPIRE_CLUSTER: pathSegment.default("homelab"),
    SPIRE_CLASS: objectName.default("spire-mgmt-spire"),
    SPIRE_SVID_TTL_SECONDS: integer(60).default(600),
    SPIRE_SERVER_API: spireServer.optional(),
    CONTROLLER_NAMESPACE: dnsLabel.optional(),
    VM_BACKEND: z.enum(["opensandbox", "local"]).default("opensandbox"),
    VM_RUNNER_LABEL: text.default("vm"),
    VM_CAPACITY: integer(1).default(1),
    VM_BACKLOG: integer(1).optional(),
    VM_TIMEOUT_SECONDS: integer(60).default(14_400),
    VM_IDENTITY: z.enum(vmIdentities).default("template"),
    VM_SPIFFE_SOCKET: guestSocket.default("unix:///run/spire/agent-sockets/spire-agent.sock"),
    VM_EXECUTOR_UID: integer(1).default(2000),
    VM_SPIRE_SERVER: spireServerPort.optional(),
    OPENSANDBOX_API: url.optional(),
    OPENSANDBOX_API_KEY_FILE: checked(secret).optional(),
    OPENSANDBOX_CA_FILE: checked(authorities).transform(authorities).optional(),
    OPENSANDBOX_POOL: objectName.default("ci-vm"),
    LOCAL_FOLDER: absolutePath.optional(),
    LOCAL_IDENTITY: z.enum(["workload-api", "spire"]).default("workload-api"),
    LOCAL_WORKLOAD_API_FOLDER: absolutePath.optional(),
    LOCAL_SPIRE_SERVER_BINARY: absolutePath.optional(),
    LOCAL_SPIRE_SERVER_SOCKET: absolutePath.optional(),
    LOCAL_SPIRE_PARENT_ID: checked(
      parseSpiffeId,
      "it is not a SPIFFE ID, as in spiffe://example.org/host",
    ).optional(),
    LOCAL_SPIRE_AGENT_SOCKET: absolutePath.optional(),
    LOCAL_SPIRE_AGENT_BINARY: absolutePath.optional(),
    LOCAL_SPIRE_SVID_TTL_SECONDS: integer(1).default(600),
    GITEA_RUNNER_BINARY: absolutePath.optional(),
    RUNNER_TIMES: checked(parseTimes)
      .default("{}")
      .transform((value) => parseTimes(value)),
    HEALTH_LISTEN: listen(":8080"),
    LOG_LEVEL: z.enum(logLevels).default("info"),
    HOSTNAME: text.default("controller"),
    NODE_ENV: z.string().optional(),
  });
}

export type Variables = z.infer<ReturnType<typeof schemaFor>>;
