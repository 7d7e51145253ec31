import assert from "node:assert/strict";
import { Config, runtime } from "@pulumi/pulumi";
import { afterEach, describe, it } from "mocha";
import { givenSettings } from "../../infra/given-settings.ts";

describe("what a stack's file gives", () => {
  const project = "gitea-dynamic-runner";
  afterEach(() => runtime.setAllConfig({}));
  const given = (values: Readonly<Record<string, string>>) => {
    const named = Object.entries(values).map(([key, value]) => [`${project}:${key}`, value]);
    runtime.setAllConfig(Object.fromEntries(named), [`${project}:natsPassword`]);
    return givenSettings(new Config(project));
  };

  it("tells what is wrong with secrets that are set, and of no others", () => {
    const { secrets, mistakes } = given({ natsPassword: "planted\n", capabilityKeys: "k".repeat(32) });
    assert.deepEqual(Object.keys(secrets).toSorted(), ["capabilityKeys", "natsPassword"]);
    assert.deepEqual(mistakes, ["natsPassword: it has white space around it, or several lines"]);
  });

  it("keeps secrets apart from what may be shown, also where they are set in clear", () => {
    const { plain } = given({ giteaRunnerToken: "planted", suffix: "dev", pod: '{"capacity":2}' });
    assert.deepEqual(plain, { suffix: "dev", pod: { capacity: 2 } });
  });
});
