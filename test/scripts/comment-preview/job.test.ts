import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { readJob } from "../../../scripts/comment-preview/job.ts";

const environment = {
  GITHUB_API_URL: "http://127.0.0.1:3000/sub/api/v1",
  GITHUB_REPOSITORY: "owner/name",
  GITHUB_RUN_NUMBER: "17",
  GITHUB_SHA: "a".repeat(40),
  GITHUB_TOKEN: "of-the-job",
  PULL_REQUEST: "5",
};

describe("what a job knows of itself", () => {
  it("is read from its variables", () => {
    assert.deepEqual(readJob(environment), {
      api: { url: "http://127.0.0.1:3000/sub", token: "of-the-job" },
      place: { repository: { owner: "owner", name: "name" }, pull: 5 },
      commit: "a".repeat(40),
      run: "17",
    });
  });

  it("is told to be wrong by name, all of it at once, without a value", () => {
    const wrong = {
      ...environment,
      GITHUB_API_URL: "http://h/of-the-job",
      GITHUB_TOKEN: "",
      PULL_REQUEST: "of-the-job",
    };
    const { GITHUB_SHA: _, ...without } = wrong;
    assert.throws(
      () => readJob(without),
      (error: Error) => {
        for (const name of [
          "GITHUB_API_URL",
          "GITHUB_SHA: it is not set",
          "GITHUB_TOKEN: it is empty",
          "PULL_REQUEST",
        ])
          assert.ok(error.message.includes(name), error.message);
        assert.ok(!error.message.includes("of-the-job"));
        assert.ok(!error.message.includes("GITHUB_RUN_NUMBER"));
        return true;
      },
    );
  });
});
