import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { RetentionPolicy } from "nats";
import { devSettings } from "../support/infra/stack-settings.ts";
import { planted, useQueueStack } from "../support/infra/use-queue-stack.ts";

describe("the queue beside what is on the server already, through Pulumi's engine", () => {
  const queue = useQueueStack();
  const { stack, configure, everything } = queue;

  afterEach("empty the server and the stack", async () => {
    for (const { name } of (await everything()).streams) await queue.server.streams.delete(name);
    await configure();
    await stack.done("destroy", "--yes", "--refresh");
  });

  it("B-106 is two of dev and prod that do not touch each other", async () => {
    const dev = await queue.pulumi.stack("dev", { program: "queue", secrets: planted });
    const configureDev = (overrides: Readonly<Record<string, unknown>> = {}) =>
      dev.configure(devSettings({ nats: { url: queue.nats.url, user: queue.nats.user }, ...overrides }));
    await configure();
    await configureDev();
    await stack.done("up", "--yes");
    const prod = await everything();
    await dev.done("up", "--yes");
    const both = await everything();
    assert.deepEqual(
      both.streams.map(({ name, subjects }) => [name, ...subjects]),
      [
        ["CI_RUNNER", "ci.assignment.*"],
        ["CI_RUNNER_DEV", "ci-dev.assignment.*"],
        ["CI_RUNNER_DEV_EVENTS", "ci-dev.assignment.events.*"],
        ["CI_RUNNER_EVENTS", "ci.assignment.events.*"],
        ["KV_CI_RUNNER_DEV_STATE", "$KV.CI_RUNNER_DEV_STATE.>"],
        ["KV_CI_RUNNER_STATE", "$KV.CI_RUNNER_STATE.>"],
      ],
    );
    assert.equal(both.consumers.length, 4);
    await configureDev({ pod: { capacity: 9 } });
    await dev.done("up", "--yes");
    await stack.done("refresh", "--run-program", "--preview-only", "--expect-no-changes");
    await dev.done("destroy", "--yes");
    assert.deepEqual(await everything(), prod);
  });

  it("tells of a stream that exists, and of one that is otherwise, before anything is changed", async () => {
    await queue.server.streams.add({ name: "CI_RUNNER", subjects: ["ci.assignment.*"] });
    const old = await everything();
    for (const [adopt, reason] of [
      [false, /stream CI_RUNNER exists already: import it, or set adopt/],
      [true, /stream CI_RUNNER cannot be adopted as it is: retention: /],
    ] as const) {
      await configure({ nats: { adopt } });
      assert.match(await stack.refused("preview"), reason);
      assert.match(await stack.refused("up", "--yes"), reason);
      assert.deepEqual(await everything(), old);
    }
  });

  it("tells of subjects that somebody else's stream takes before anything is changed", async () => {
    await queue.server.streams.add({ name: "OTHERS", subjects: ["ci.assignment.pod"] });
    const old = await everything();
    await configure();
    const reason = /subject ci\.assignment\.\* overlaps with those of stream OTHERS/;
    assert.match(await stack.refused("preview"), reason);
    assert.match(await stack.refused("up", "--yes"), reason);
    assert.deepEqual(await everything(), old);
  });

  it("takes over what is there with its messages where that is asked for", async () => {
    const retention = RetentionPolicy.Workqueue;
    await queue.server.streams.add({ name: "CI_RUNNER", subjects: ["ci.assignment.*"], retention });
    await queue.publish("ci.assignment.pod");
    await configure({ nats: { adopt: true } });
    await stack.done("up", "--yes");
    const { config, state } = await queue.server.streams.info("CI_RUNNER");
    assert.equal(state.messages, 1);
    assert.equal(config.discard, "new");
    await stack.done("preview", "--expect-no-changes");
  });

  it("imports streams, consumers and buckets that somebody made by hand", async () => {
    await configure();
    await stack.done("up", "--yes");
    const wanted = await everything();
    // Pulumi forgets all but the connection, as it knows it after the first step of an import.
    const resources = await stack.resources();
    const urnOf = (type: RegExp, name = "") =>
      resources.map(({ urn }) => urn).find((urn) => type.test(urn) && urn.endsWith(`::${name}`)) ?? "";
    const server = urnOf(/pulumi:providers:jetstream/, "jetstream");
    const parent = urnOf(/index:Queue::/, "queue");
    for (const name of ["pod", "vm", "assignments", "events", "state"])
      await stack.done("state", "delete", "--yes", urnOf(/jetstream:index:/, name));
    for (const [kind, name, id] of [
      ["Stream", "assignments", "CI_RUNNER"],
      ["Consumer", "pod", "CI_RUNNER/pod"],
      ["Consumer", "vm", "CI_RUNNER/vm"],
      ["Stream", "events", "CI_RUNNER_EVENTS"],
      ["KeyValue", "state", "CI_RUNNER_STATE"],
    ] as const) {
      const options = ["--yes", "--generate-code=false", "--protect=false"];
      const places = ["--provider", `jetstream=${server}`, "--parent", `queue=${parent}`];
      const said = await stack.done("import", ...options, ...places, `jetstream:index:${kind}`, name, id);
      assert.doesNotMatch(said, /failed to validate/);
    }
    await stack.done("up", "--yes");
    assert.deepEqual(await everything(), wanted);
    await stack.done("refresh", "--run-program", "--preview-only", "--expect-no-changes");
  });

  it("imports nothing where there is nothing", async () => {
    await configure();
    await stack.done("up", "--yes");
    const urn =
      (await stack.resources()).find(({ type }) => type === "pulumi:providers:jetstream")?.urn ?? "";
    const options = ["--yes", "--generate-code=false", "--provider", `jetstream=${urn}`];
    const said = await stack.refused("import", ...options, "jetstream:index:Stream", "none", "NONE");
    assert.match(said, /'NONE' does not exist/);
  });
});
