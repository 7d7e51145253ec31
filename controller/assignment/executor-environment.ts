import type { Assignment } from "./assignment.ts";

/** What an executor is told: whom to call, as whom, and for what. The capability is its only secret. */
export type ExecutorEnvironment = {
  readonly CI_ASSIGNMENT_ID: string;
  readonly CI_BACKEND: string;
  readonly CI_RUNNER_CAPABILITY: string;
  readonly CI_SPIFFE_ID: string;
  readonly RUNNER_FACADE_URL: string;
  readonly RUNNER_FACADE_SPIFFE_ID: string;
  /** Given by the backend: how the executor reaches its Workload API. */
  readonly SPIFFE_ENDPOINT_SOCKET: string;
};

/** All of it but the socket, which the backend knows. */
export type BackendIndependentEnvironment = Omit<ExecutorEnvironment, "SPIFFE_ENDPOINT_SOCKET">;

export function executorEnvironment(
  assignment: Assignment,
  capability: string,
  facade: { readonly url: string; readonly spiffeId: string },
): BackendIndependentEnvironment {
  return {
    CI_ASSIGNMENT_ID: assignment.id,
    CI_BACKEND: assignment.backend,
    CI_RUNNER_CAPABILITY: capability,
    CI_SPIFFE_ID: assignment.spiffeId,
    RUNNER_FACADE_URL: facade.url,
    RUNNER_FACADE_SPIFFE_ID: facade.spiffeId,
  };
}
