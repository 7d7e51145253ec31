import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "mocha";
import { DiscardPolicy, nanos } from "nats";
import { findInFiles } from "../support/find-in-files.ts";
import { planted, useQueueStack } from "../support/infra/use-queue-stack.ts";

/** The exit code for changes where none are expected. */
const changesExitCode = 7;
const hourMs = 3_600_000;
const lookForDrift = ["--run-program", "--preview-only", "--expect-no-changes"] as const;

/** What somebody changes on the server, by its own names, of what is stored as it is. */
const changedStreams = {
  CI_RUNNER: {
    max_msgs: 100,
    max_bytes: 1_000_000,
    max_msg_size: 1000,
    max_age: nanos(hourMs),
    duplicate_window: nanos(60_000),
    discard: DiscardPolicy.Old,
    description: "mine",
    no_ack: true,
  },
  KV_CI_RUNNER_STATE: {
    max_msgs_per_subject: 5,
    max_age: nanos(2 * hourMs),
    duplicate_window: nanos(30_000),
    max_msgs: 1000,
    allow_rollup_hdrs: false,
  },
  CI_RUNNER_EVENTS: { max_age: nanos(3 * hourMs), max_msgs_per_subject: 10 },
} as const;
const changedConsumers = {
  pod: { max_ack_pending: 99, max_deliver: 5, backoff: [nanos(1000), nanos(5000)] },
  vm: { ack_wait: nanos(7000), headers_only: true, inactive_threshold: nanos(24 * hourMs) },
};
/** And what Pulumi calls it, as the program has it and as it is then. */
const changedProperties = [
  ["maxMessages", "-1", "100"],
  ["maxBytes", "-1", "1000000"],
  ["maxMessageBytes", "-1", "1000"],
  ["maxAgeSeconds", "0", "3600"],
  ["duplicateWindowSeconds", "3600", "60"],
  ["discard", '"new"', '"old"'],
  ["history", "1", "5"],
  ["ttlSeconds", "0", "7200"],
  ["maxAgeSeconds", "604800", "10800"],
  ["maxMessagesPerSubject", "-1", "10"],
  ["maxAckPending", "7", "99"],
  ["maxDeliver", "1000", "5"],
  ["ackWaitSeconds", "60", "1"],
  ["ackWaitSeconds", "60", "7"],
] as const;
const changedBesides = [
  '"mine"',
  "no_ack is true, not off",
  "duplicate_window is 30000000000, not 120000000000",
  "max_msgs is 1000, not -1",
  "allow_rollup_hdrs is off, not true",
  "backoff is [1000000000,5000000000], not off",
  "headers_only is true, not off",
  "inactive_threshold is 86400000000000, not off",
];

describe("the queue through Pulumi's engine", () => {
  const queue = useQueueStack();
  const { stack, configure, everything } = queue;

  it("B-100 is made, and a second preview finds nothing to do", async () => {
    await configure();
    assert.match(await stack.done("preview", "--diff"), /password *: \[secret\]/);
    await stack.done("up", "--yes");
    const { streams, consumers } = await everything();
    assert.deepEqual(
      streams.map(({ name, retention }) => [name, retention]),
      [
        ["CI_RUNNER", "workqueue"],
        ["CI_RUNNER_EVENTS", "limits"],
        ["KV_CI_RUNNER_STATE", "limits"],
      ],
    );
    assert.deepEqual(
      consumers.map((one) => [one.durable_name, one.filter_subject, one.max_ack_pending, one.max_deliver]),
      [
        ["pod", "ci.assignment.pod", 4, 1000],
        ["vm", "ci.assignment.vm", 1, 1000],
      ],
    );
    await stack.done("preview", "--expect-no-changes");
    await stack.done("refresh", ...lookForDrift);
  });

  it("B-100 has a new capacity in place, at that consumer and nothing else", async () => {
    const old = await everything();
    await configure({ pod: { capacity: 7 } });
    const plan = await stack.done("preview", "--diff");
    assert.match(plan, /~ jetstream:index:Consumer: \(update\)/);
    assert.match(plan, /~ maxAckPending: 4 => 7/);
    assert.match(plan, /~ 1 to update\n\s+\d unchanged/);
    await stack.done("up", "--yes");
    const now = await everything();
    assert.equal(now.consumers[0]?.max_ack_pending, 7);
    const [pod, vm] = old.consumers;
    assert.deepEqual(now, { ...old, consumers: [{ ...pod, max_ack_pending: 7 }, vm] });
  });

  it("is found to have drifted by a refresh that looks, and repaired by up", async () => {
    const wanted = await everything();
    await queue.server.consumers.update("CI_RUNNER", "pod", { max_ack_pending: 99 });
    await queue.server.consumers.delete("CI_RUNNER", "vm");
    await queue.server.streams.delete("KV_CI_RUNNER_STATE");
    // What Pulumi remembers is as it was.
    await stack.done("preview", "--expect-no-changes");
    const { exitCode, stdout } = await stack.run("refresh", "--diff", ...lookForDrift);
    assert.equal(exitCode, changesExitCode);
    assert.match(stdout, /maxAckPending: 7 => 99/);
    assert.match(stdout, /- jetstream:index:Consumer: \(delete\)\n\s+\[id=CI_RUNNER\/vm\]/);
    assert.match(stdout, /- jetstream:index:KeyValue: \(delete\)\n\s+\[id=CI_RUNNER_STATE\]/);
    await stack.done("up", "--yes", "--refresh", "--run-program");
    assert.deepEqual(await everything(), wanted);
  });

  it("is found to have drifted in each of its settings, and has them back in place with all that is stored", async () => {
    await queue.publish("ci.assignment.pod");
    await queue.publish("$KV.CI_RUNNER_STATE.leader");
    const wanted = await everything();
    const old = await queue.stored();
    for (const [stream, settings] of Object.entries(changedStreams))
      await queue.server.streams.update(stream, settings);
    for (const [consumer, settings] of Object.entries(changedConsumers))
      await queue.server.consumers.update("CI_RUNNER", consumer, settings);
    const { exitCode, stdout } = await stack.run("refresh", "--diff", ...lookForDrift);
    assert.equal(exitCode, changesExitCode);
    const plan = await stack.done("preview", "--diff", "--refresh", "--run-program");
    for (const [property, as, now] of changedProperties) {
      assert.match(stdout, new RegExp(`~ ${property} *: ${as} => ${now}\n`));
      assert.match(plan, new RegExp(`~ ${property} *: ${now} => ${as}\n`));
    }
    for (const sentence of changedBesides) {
      assert.ok(stdout.includes(sentence), `${sentence} in ${stdout}`);
      assert.ok(plan.includes(sentence), `${sentence} in ${plan}`);
    }
    assert.match(plan, /~ 5 to update\n/);
    await stack.done("up", "--yes", "--refresh", "--run-program");
    assert.deepEqual(await everything(), wanted);
    assert.deepEqual(await queue.stored(), old);
    await queue.server.streams.purge("CI_RUNNER");
  });

  for (const [what, properties, reason] of [
    [
      "another retention",
      { assignments: { retention: "limits" } },
      /property retention .*messages would be lost/,
    ],
    [
      "other subjects",
      {
        assignments: { subjects: ["other.assignment.*"] },
        pod: { filterSubject: "other.assignment.pod" },
        vm: { filterSubject: "other.assignment.vm" },
      },
      /what is stored of ci\.assignment\.\* stays where no consumer/,
    ],
  ] as const)
    it(`refuses ${what} with the reason, in preview and up, and nothing is changed`, async () => {
      const old = await everything();
      await configure({ pod: { capacity: 7 } }, properties);
      assert.match(await stack.refused("preview"), reason);
      assert.match(await stack.refused("up", "--yes"), reason);
      assert.deepEqual(await everything(), old);
    });

  it("says that NATS is away, and goes on when it is back", async () => {
    await configure({ pod: { capacity: 3 } });
    await queue.nats.stop();
    const away = /jetstream: no connection to nats:\/\/127\.0\.0\.1:\d+: /;
    assert.match(await stack.refused("up", "--yes"), away);
    assert.match(await stack.refused("preview", "--refresh", "--run-program"), away);
    assert.match(await stack.refused("refresh", ...lookForDrift), away);
    await queue.nats.start();
    await stack.done("up", "--yes");
    assert.equal((await everything()).consumers[0]?.max_ack_pending, 3);
  });

  it("is not destroyed with messages in it, can be brought up again, and is destroyed when that is allowed", async () => {
    const old = await everything();
    await queue.publish("ci.assignment.pod");
    const said = await stack.refused("destroy", "--yes");
    assert.match(said, /stream CI_RUNNER has 1 messages, which would be lost: set allowDataLoss/);
    await stack.done("up", "--yes");
    assert.deepEqual(await everything(), old);
    assert.equal((await queue.server.streams.info("CI_RUNNER")).state.messages, 1);
    await configure({ pod: { capacity: 3 } }, { assignments: { allowDataLoss: true } });
    await stack.done("up", "--yes");
    await stack.done("destroy", "--yes");
    assert.deepEqual(await everything(), { streams: [], consumers: [] });
  });

  it("B-106 is not destroyed where it is protected, and nothing of what is protected is changed", async () => {
    await configure({ protect: true });
    await stack.done("up", "--yes");
    const said = await stack.refused("destroy", "--yes");
    assert.match(said, /unprotect/);
    const names = (await everything()).streams.map(({ name }) => name);
    assert.ok(names.includes("CI_RUNNER") && names.includes("KV_CI_RUNNER_STATE"), names.join());
    await configure();
    await stack.done("up", "--yes");
    await stack.done("destroy", "--yes");
    assert.deepEqual(await everything(), { streams: [], consumers: [] });
  });

  it("is replaced with its consumers where the loss of its messages is allowed", async () => {
    const allowed = { allowDataLoss: true };
    await configure({}, { assignments: allowed, state: allowed });
    await stack.done("up", "--yes");
    const old = await everything();
    await queue.publish("ci.assignment.pod");
    const memory = { storage: "memory", allowDataLoss: true };
    await configure({}, { assignments: memory, state: memory, events: memory });
    await stack.done("up", "--yes");
    const { streams, consumers } = await everything();
    assert.deepEqual(new Set(streams.map(({ storage }) => storage)), new Set(["memory"]));
    assert.deepEqual(consumers, old.consumers);
    await stack.done("refresh", ...lookForDrift);
  });

  it("leaves secrets in no file, and in nothing that is said", async () => {
    const { folder, told } = queue.pulumi;
    const stacks = path.join(path.relative(folder, stack.folder), "stacks");
    for (const [name, secret] of Object.entries(planted)) {
      for (const place of ["state", "home", "pulumi-home", "temporary", stacks])
        assert.deepEqual(await findInFiles(path.join(folder, place), secret), [], `${name} in ${place}`);
      assert.ok(!told.join("\n").includes(secret), `${name} was said`);
    }
    // It was looked for in the right places: names are there, and so is what the password has become.
    assert.ok((await findInFiles(path.join(folder, "state"), "ciphertext")).length > 1);
    assert.ok((await findInFiles(path.join(folder, "state", ".pulumi", "history"), "CI_RUNNER")).length > 1);
  });
});
