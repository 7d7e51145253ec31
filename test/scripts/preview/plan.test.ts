import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { commentOf, planOf } from "../../../scripts/preview/plan.ts";

const ended = (exitCode: number | null, stdout: string, stderr = "") =>
  planOf("prod", { exitCode, stdout, stderr });

describe("a plan", () => {
  for (const [summary, counts] of [
    ["    8 unchanged\n", "8 unchanged."],
    ["    + 2 to create\n    ~ 1 to update\n    7 unchanged\n", "2 to create, 1 to update, 7 unchanged."],
    ["    +-3 to replace\n    5 unchanged\n", "3 to replace, 5 unchanged."],
    [
      "    ~ 1 to update\n    - 1 to delete\n    2 changes. 7 unchanged\n",
      "1 to update, 1 to delete, 2 changes. 7 unchanged.",
    ],
    ["", "Nothing would change."],
  ] as const)
    it(`is summed up as the CLI does it: ${counts}`, () => {
      const plan = ended(0, `Previewing update (prod):\n\nResources:\n${summary}`);
      assert.equal(plan.planned && plan.summary, counts);
    });

  for (const [output, reason] of [
    ["error: no stack named 'prod' found", /there is no stack prod: pulumi stack init prod makes it/],
    [
      "error: jetstream: no connection to nats://x:4222: CONNECTION_REFUSED",
      /NATS cannot be reached.*nats:\/\/x:4222/,
    ],
    ["error: failed to read resource state due to unreachable cluster", /the cluster cannot be reached/],
    ["error: configured Kubernetes cluster is unreachable: …", /the cluster cannot be reached/],
    [
      "SettingsError: the stack's configuration is not usable:\n  pod.capacity: …",
      /configuration is not usable/,
    ],
    ["error: passphrase must be set with PULUMI_CONFIG_PASSPHRASE", /set PULUMI_CONFIG_PASSPHRASE/],
    ["error: something else", /pulumi preview failed \(255\)/],
  ] as const)
    it(`B-107 is none, with a reason: ${output.split("\n")[0]}`, () => {
      for (const plan of [ended(255, "", output), ended(255, output)])
        assert.match(plan.planned ? "" : plan.reason, reason);
    });

  it("B-107 is none where something new could not be looked for, though the CLI was content", () => {
    const warning =
      "warning: nobody could look whether stream S is there already: jetstream: no connection to x";
    const plan = ended(0, `${warning}\nResources:\n    + 8 to create\n`);
    assert.match(plan.planned ? "" : plan.reason, /NATS cannot be reached/);
  });

  it("B-107 is none where NATS answered but could not be asked, though the CLI was content", () => {
    const warning = "warning: nobody could look whether bucket B is there already: 503";
    const plan = ended(0, `${warning}\nResources:\n    + 8 to create\n`);
    assert.match(plan.planned ? "" : plan.reason, /NATS cannot be asked.*bucket B.*503/);
  });

  it("shows no password of an address, neither in a job's log nor in a comment", () => {
    const plan = ended(
      255,
      "",
      "error: jetstream: no connection to nats://ci:plan@ted@nats:4222: CONNECTION_REFUSED",
    );
    const told = `${plan.planned ? "" : plan.reason} ${commentOf("prod", plan)}`;
    assert.match(told, /nats:\/\/\[redacted\]@nats:4222/);
    assert.doesNotMatch(told, /plan@|ted@nats/);
  });

  it("is none where the CLI was killed", () => {
    const plan = ended(null, "Previewing");
    assert.match(plan.planned ? "" : plan.reason, /failed \(killed\)/);
  });

  it("is a comment without progress lines, which nothing in it can end", () => {
    const plan = ended(
      0,
      '@ previewing....\n+ description: "```\n# a heading"\nResources:\n    + 1 to create\n',
    );
    assert.equal(
      commentOf("prod", plan),
      '## Plan of stack prod\n\n1 to create.\n\n````\n+ description: "```\n# a heading"\nResources:\n    + 1 to create\n````\n',
    );
  });
});
