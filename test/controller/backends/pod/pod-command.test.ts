import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "mocha";
import { podCommand } from "../../../../controller/backends/pod/pod-command.ts";

const settings = {
  namespace: "gitea-actions",
  image: "registry.example:5000/ci/runner:1",
  serviceAccount: "gitea-task-executor",
};
const name = "gitea-task-7-1-0123abcd";

describe("the command that shows why a Pod failed", () => {
  it("lists the events of the Pod", () => {
    assert.equal(
      podCommand(settings, name, "config_error"),
      `kubectl -n gitea-actions get events --field-selector involvedObject.name=${name}`,
    );
  });

  it("pulls the image as the executor does, where that is what failed", () => {
    assert.equal(
      podCommand(settings, name, "image_missing"),
      `kubectl -n gitea-actions run image-check --rm -i --restart=Never --overrides='{"spec":{"serviceAccountName":"gitea-task-executor"}}' --image=registry.example:5000/ci/runner:1 --command -- true`,
    );
  });

  it("says an image's name to a shell as it is, whatever it is", () => {
    const image = "a'b$(date)`c`;d";
    const command = podCommand({ ...settings, image }, name, "image_invalid");
    const heard = execFileSync("/bin/sh", ["-c", command.replace(/^kubectl/, "printf '%s\\n'")], {
      encoding: "utf8",
    });
    assert.ok(heard.split("\n").includes(`--image=${image}`), heard);
  });
});
