import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { processEnvironment } from "../../../../controller/backends/local/executor-program.ts";
import { anExecutorRequest } from "../../../support/backend-contract.ts";

const { environment } = anExecutorRequest("pod");
const place = {
  folder: "/state/executors/x",
  home: "/state/executors/x/home",
  socket: "/state/wl/x.sock",
  node: "/usr/bin/node",
  giteaRunnerBinary: "/usr/bin/gitea-runner",
  runnerConfig: "/state/executors/x/gitea-runner.yaml",
};

describe("the environment of a local executor", () => {
  it("B-75 takes only what an executor is told, whatever else stands in the request", () => {
    const request = { ...environment, GITEA_TOKEN: "secret", NATS_PASSWORD: "secret", PATH: "/evil" };
    assert.deepEqual(processEnvironment(request, place), processEnvironment(environment, place));
    assert.ok(!JSON.stringify(processEnvironment(request, place)).includes("secret"));
  });

  it("lets actions find the bootstrap's own Node first", () => {
    const at = (node: string) => processEnvironment(environment, { ...place, node })["PATH"];
    assert.equal(at("/usr/bin/node"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    assert.equal(
      at("/state/program/1/bin/node"),
      "/state/program/1/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    );
  });
});
