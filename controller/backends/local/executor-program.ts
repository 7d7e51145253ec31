import path from "node:path";
import { stringify } from "yaml";
import type { BackendIndependentEnvironment } from "../../assignment/executor-environment.ts";
import { executorVariable } from "./executor-processes.ts";

const systemPath = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

export type ExecutorPlace = {
  readonly folder: string;
  readonly home: string;
  /** `SPIFFE_ENDPOINT_SOCKET` without the scheme. */
  readonly socket: string;
  readonly node: string;
  readonly giteaRunnerBinary: string;
  readonly runnerConfig: string;
};

/**
 * The whole environment of an executor. Nothing of the controller's own gets in: there are its tokens and
 * passwords. JavaScript actions find the node of the bootstrap first.
 */
export function processEnvironment(
  request: BackendIndependentEnvironment,
  place: ExecutorPlace,
): Readonly<Record<string, string>> {
  const nodeFolder = path.dirname(place.node);
  return {
    CI_ASSIGNMENT_ID: request.CI_ASSIGNMENT_ID,
    CI_BACKEND: request.CI_BACKEND,
    CI_RUNNER_CAPABILITY: request.CI_RUNNER_CAPABILITY,
    CI_SPIFFE_ID: request.CI_SPIFFE_ID,
    RUNNER_FACADE_URL: request.RUNNER_FACADE_URL,
    RUNNER_FACADE_SPIFFE_ID: request.RUNNER_FACADE_SPIFFE_ID,
    SPIFFE_ENDPOINT_SOCKET: `unix://${place.socket}`,
    GITEA_RUNNER_BINARY: place.giteaRunnerBinary,
    GITEA_RUNNER_CONFIG_FILE: place.runnerConfig,
    [executorVariable]: place.folder,
    PATH: [...(systemPath.includes(nodeFolder) ? [] : [nodeFolder]), ...systemPath].join(":"),
    HOME: place.home,
    TMPDIR: temporaryFolder(place.home),
    USER: "executor",
    LOGNAME: "executor",
    LANG: "C.UTF-8",
  };
}

/** Temporary files lie under the home too, and go with it. */
export function temporaryFolder(home: string): string {
  return path.join(home, "tmp");
}

/**
 * gitea-runner's configuration file. `.runner` stays where it looks for it, in its working folder; its cache server
 * would outlive no job, and its own limit of 3 h is replaced by the executor's.
 */
export function runnerConfig(home: string, timeoutSeconds: number): string {
  return stringify({
    log: { level: "info" },
    runner: { capacity: 1, timeout: `${timeoutSeconds}s` },
    cache: { enabled: false },
    host: { workdir_parent: path.join(home, "work") },
  });
}
