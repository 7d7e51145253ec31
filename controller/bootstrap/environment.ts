import { z } from "zod";
import { taskIdOf } from "../assignment/assignment.ts";
import { backendKinds, type BackendKind } from "../assignment/backend-kind.ts";
import { parseSpiffeId, type SpiffeId, SpiffeIdError } from "../identity/spiffe-id.ts";

/** What the bootstrap is told by the backend that started it, parsed. */
export type BootstrapEnvironment = {
  readonly assignmentId: string;
  readonly taskId: bigint;
  readonly backend: BackendKind;
  /** The only secret: proof of the attempt. */
  readonly capability: string;
  readonly spiffeId: SpiffeId;
  readonly facadeUrl: string;
  readonly facadeSpiffeId: SpiffeId;
  /** As `SPIFFE_ENDPOINT_SOCKET` spells it. */
  readonly endpointSocket: string;
  readonly runnerBinary: string;
  readonly runnerConfigFile: string;
};

/** The executor was started with an environment that cannot work; starting it again as it is does not help. */
export class EnvironmentError extends Error {
  override readonly name = "EnvironmentError";
}

const spiffeId = z.string("is missing").transform((text, context) => {
  try {
    return parseSpiffeId(text);
  } catch (error) {
    if (!(error instanceof SpiffeIdError)) throw error;
    context.addIssue("is no SPIFFE ID");
    return z.NEVER;
  }
});

const required = z.string("is missing").min(1, "is missing");

const schema = z.object({
  CI_ASSIGNMENT_ID: required.transform((id, context) => {
    const taskId = taskIdOf(id);
    if (taskId !== undefined) return { id, taskId };
    context.addIssue("is no assignment id");
    return z.NEVER;
  }),
  CI_BACKEND: z.enum(backendKinds, { error: "is missing or no backend" }),
  CI_RUNNER_CAPABILITY: required,
  CI_SPIFFE_ID: spiffeId,
  RUNNER_FACADE_URL: required.refine(isHttpsOrigin, "is no https:// address without a path"),
  RUNNER_FACADE_SPIFFE_ID: spiffeId,
  SPIFFE_ENDPOINT_SOCKET: required,
  GITEA_RUNNER_BINARY: z.string().min(1).default("gitea-runner"),
  GITEA_RUNNER_CONFIG_FILE: z.string().min(1).default("/etc/gitea-runner/config.yaml"),
});

/**
 * Reads the environment. Throws EnvironmentError that names every variable that is missing or bad, and shows
 * no value: one of them is a secret.
 */
export function readEnvironment(variables: NodeJS.ProcessEnv): BootstrapEnvironment {
  const result = schema.safeParse(withoutEmpty(variables));
  if (!result.success) {
    const faults = result.error.issues.map(({ path, message }) => `${path.join(".")} ${message}`);
    throw new EnvironmentError(faults.join(", "));
  }
  const values = result.data;
  return {
    assignmentId: values.CI_ASSIGNMENT_ID.id,
    taskId: values.CI_ASSIGNMENT_ID.taskId,
    backend: values.CI_BACKEND,
    capability: values.CI_RUNNER_CAPABILITY,
    spiffeId: values.CI_SPIFFE_ID,
    facadeUrl: values.RUNNER_FACADE_URL,
    facadeSpiffeId: values.RUNNER_FACADE_SPIFFE_ID,
    endpointSocket: values.SPIFFE_ENDPOINT_SOCKET,
    runnerBinary: values.GITEA_RUNNER_BINARY,
    runnerConfigFile: values.GITEA_RUNNER_CONFIG_FILE,
  };
}

/**
 * The environment that programs of ours and of the job get: everything but the capability. Workflow steps do
 * see `SPIFFE_ENDPOINT_SOCKET`: they fetch the job's SVIDs themselves.
 */
export function handedOnEnvironment(variables: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { CI_RUNNER_CAPABILITY: _, ...rest } = variables;
  return rest;
}

/** A variable that is set to nothing is one that is not set. */
function withoutEmpty(variables: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ""));
}

function isHttpsOrigin(text: string): boolean {
  const url = URL.parse(text);
  return url?.protocol === "https:" && url.href === `${url.origin}/`;
}
