import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { serverOf, targetOf } from "../../../controller/bootstrap/proxy-target.ts";

const gitea = new URL("https://gitea.example.org/");
const below = new URL("https://example.org/gitea/");

describe("where a job's request goes", () => {
  const passed = [
    "/acme/widgets.git/info/refs?service=git-upload-pack",
    "/api/v1/repos/acme/widgets",
    "/api/actions_pipeline/_apis/pipelines/workflows/7/artifacts",
    "/twirp/github.actions.results.api.v1.ArtifactService/CreateArtifact",
    "/api/v1/x?next=/api/actions/y",
    "/a%2Fb/c%20d",
  ];
  for (const path of passed)
    it(`passes ${path} as it is`, () => assert.deepEqual(targetOf(gitea, path), { kind: "pass", path }));

  const blocked = [
    "/api/actions",
    "/api/actions/",
    "/api/actions/ping.v1.PingService/Ping",
    "//api//actions/runner.v1.RunnerService/FetchTask",
    "/api/./actions/x",
    "/x/../api/actions/x",
    "/api%2Factions/x",
    "/%61pi/actions/x",
    "/API/Actions/x",
    "/api/actions?x",
  ];
  for (const path of blocked)
    it(`blocks ${path}`, () => {
      const target = targetOf(gitea, path);
      assert.equal(target.kind === "refuse" && target.status, 403);
    });

  for (const path of ["https://example.org/", "*", "", "/%zz"])
    it(`refuses ${JSON.stringify(path)} as no path`, () => {
      const target = targetOf(gitea, path);
      assert.equal(target.kind === "refuse" && target.status, 400);
    });

  it("keeps to the path at which Gitea is served", () => {
    assert.deepEqual(targetOf(below, "/acme/widgets"), { kind: "pass", path: "/gitea/acme/widgets" });
  });
});

describe("the task's server", () => {
  it("is the server_url of its context", () => {
    assert.equal(
      serverOf({ server_url: "https://gitea.example.org:3000/x/" })?.href,
      "https://gitea.example.org:3000/x/",
    );
  });

  it("is unknown when the context has none that is http or https", () => {
    for (const context of [undefined, {}, { server_url: 1 }, { server_url: "x" }, { server_url: "ssh://x/" }])
      assert.equal(serverOf(context), undefined);
  });
});
