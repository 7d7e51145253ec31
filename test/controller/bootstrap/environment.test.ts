import assert from "node:assert/strict";
import { describe, it } from "mocha";
import {
  EnvironmentError,
  handedOnEnvironment,
  readEnvironment,
} from "../../../controller/bootstrap/environment.ts";

const complete = {
  CI_ASSIGNMENT_ID: "gitea-task-42",
  CI_BACKEND: "pod",
  CI_RUNNER_CAPABILITY: "1.open-sesame",
  CI_SPIFFE_ID: "spiffe://example.org/ci/acme/widgets/build",
  RUNNER_FACADE_URL: "https://facade.example.org:8443",
  RUNNER_FACADE_SPIFFE_ID: "spiffe://example.org/facade",
  SPIFFE_ENDPOINT_SOCKET: "unix:///run/spire/agent-sockets/spire-agent.sock",
};

const refusal = (variables: NodeJS.ProcessEnv): string => {
  try {
    readEnvironment(variables);
  } catch (error) {
    assert.ok(error instanceof EnvironmentError);
    return error.message;
  }
  return assert.fail("it was accepted");
};

describe("the executor's environment", () => {
  it("B-73 names gitea-runner and its configuration by default", () => {
    const { runnerBinary, runnerConfigFile, taskId } = readEnvironment(complete);
    assert.deepEqual(
      [runnerBinary, runnerConfigFile, taskId],
      ["gitea-runner", "/etc/gitea-runner/config.yaml", 42n],
    );
  });

  it("takes another gitea-runner and configuration", () => {
    const other = { GITEA_RUNNER_BINARY: "/opt/runner", GITEA_RUNNER_CONFIG_FILE: "/opt/runner.yaml" };
    const { runnerBinary, runnerConfigFile } = readEnvironment({ ...complete, ...other });
    assert.deepEqual([runnerBinary, runnerConfigFile], ["/opt/runner", "/opt/runner.yaml"]);
  });

  it("B-74 names everything that is missing at once", () => {
    const message = refusal({});
    for (const name of Object.keys(complete)) assert.match(message, new RegExp(`${name} is missing`));
  });

  for (const name of Object.keys(complete))
    it(`B-74 refuses to start with an empty ${name}`, () => {
      assert.match(refusal({ ...complete, [name]: "" }), new RegExp(`^${name} is missing[^,]*$`));
    });

  const bad: readonly (readonly [keyof typeof complete, string])[] = [
    ["CI_ASSIGNMENT_ID", "task-42"],
    ["CI_ASSIGNMENT_ID", "gitea-task-0"],
    ["CI_BACKEND", "local"],
    ["CI_SPIFFE_ID", "example.org/ci"],
    ["RUNNER_FACADE_SPIFFE_ID", "spiffe://Example.org/facade"],
    ["RUNNER_FACADE_URL", "http://facade.example.org"],
    ["RUNNER_FACADE_URL", "https://facade.example.org/below"],
    ["RUNNER_FACADE_URL", "facade"],
  ];
  for (const [name, value] of bad)
    it(`B-74 refuses ${name}=${value} by name`, () => {
      assert.match(
        refusal({ ...complete, [name]: value }),
        new RegExp(`^${name} is (no|missing or no) [^,]*$`),
      );
    });

  it("never shows the capability", () => {
    assert.doesNotMatch(refusal({ CI_RUNNER_CAPABILITY: complete.CI_RUNNER_CAPABILITY }), /sesame/);
  });

  it("B-75 is handed on without the capability, with the socket", () => {
    const { CI_RUNNER_CAPABILITY: _, ...rest } = complete;
    assert.deepEqual(handedOnEnvironment({ ...complete, HOME: "/home/runner" }), {
      ...rest,
      HOME: "/home/runner",
    });
  });
});
