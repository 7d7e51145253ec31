import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { AckPolicy, type ConsumerConfig, RetentionPolicy, StorageType, type StreamConfig } from "nats";
import { checkStreams, type FoundStreams } from "../../../controller/queue/check-streams.ts";
import { wantedStreams } from "../../../controller/queue/streams.ts";

const wanted = wantedStreams({
  stream: "CI_RUNNER",
  subjectBase: "ci.assignment",
  capacity: { pod: 4, vm: 1 },
});

function found(overrides: Partial<FoundStreams> = {}): FoundStreams {
  return {
    queue: wanted.queue as StreamConfig,
    consumers: new Map<string, ConsumerConfig>(
      wanted.consumers.map((consumer) => [consumer.durable_name, consumer]),
    ),
    state: wanted.state as StreamConfig,
    events: wanted.events as StreamConfig,
    maxPayload: 8 * 1024 * 1024,
    ...overrides,
  };
}

const queueWith = (change: Partial<StreamConfig>) =>
  found({ queue: { ...wanted.queue, ...change } as StreamConfig });

const podWith = (change: Partial<ConsumerConfig>) => {
  const base = found();
  const pod = { ...base.consumers.get("pod"), ...change } as ConsumerConfig;
  return { ...base, consumers: new Map([...base.consumers, ["pod", pod]]) };
};

describe("the wanted streams", () => {
  it("B-30 have independent durable consumers for pod and vm", () => {
    const consumer = (backend: string, capacity: number) => ({
      durable_name: backend,
      filter_subject: `ci.assignment.${backend}`,
      ack_policy: "explicit",
      deliver_policy: "all",
      replay_policy: "instant",
      ack_wait: 60_000_000_000,
      max_deliver: 1000,
      max_ack_pending: capacity,
    });
    assert.deepEqual(wanted.consumers, [consumer("pod", 4), consumer("vm", 1)]);
  });

  it("have the names and limits that manifests and dashboards use", () => {
    const { queue, state, events } = wanted;
    assert.equal(queue.name, "CI_RUNNER");
    assert.deepEqual(queue.subjects, ["ci.assignment.*"]);
    assert.equal(queue.retention, "workqueue");
    assert.equal(queue.storage, "file");
    assert.equal(queue.discard, "new");
    assert.equal(queue.max_age, 0);
    assert.equal(queue.duplicate_window, 3_600_000_000_000);
    assert.deepEqual([state.name, state.subjects], ["KV_CI_RUNNER_STATE", ["$KV.CI_RUNNER_STATE.>"]]);
    assert.equal(state.max_msgs_per_subject, 1);
    assert.deepEqual([events.name, events.retention], ["CI_RUNNER_EVENTS", "limits"]);
    assert.equal(events.max_age, 7 * 24 * 3_600_000_000_000);
  });
});

describe("the check of the streams", () => {
  it("finds nothing where all is as wanted", () => {
    assert.deepEqual(checkStreams(wanted, found()), { fatal: [], missing: [], warnings: [] });
  });

  for (const [what, present, sentence] of [
    [
      "another retention",
      queueWith({ retention: RetentionPolicy.Limits }),
      "CI_RUNNER has retention limits, workqueue is wanted",
    ],
    [
      "other subjects",
      queueWith({ subjects: ["ci.>"] }),
      "CI_RUNNER has subjects ci.>, ci.assignment.* is wanted",
    ],
    [
      "another ack policy",
      podWith({ ack_policy: AckPolicy.All }),
      "consumer pod of CI_RUNNER has ack policy all, explicit is wanted",
    ],
    [
      "another filter",
      podWith({ filter_subject: "ci.assignment.vm" }),
      "consumer pod of CI_RUNNER has filter ci.assignment.vm, ci.assignment.pod is wanted",
    ],
    [
      "a push consumer",
      podWith({ deliver_subject: "somewhere" }),
      "consumer pod of CI_RUNNER is a push consumer, a pull consumer is wanted",
    ],
    [
      "a bucket that nothing can be removed from",
      found({ state: { ...wanted.state, deny_purge: true } as StreamConfig }),
      "KV_CI_RUNNER_STATE has deny_purge, records could never be removed",
    ],
  ] as const) {
    it(`refuses ${what}`, () => {
      assert.deepEqual(checkStreams(wanted, present), { fatal: [sentence], missing: [], warnings: [] });
    });
  }

  for (const [what, present, sentence] of [
    [
      "another capacity",
      podWith({ max_ack_pending: 9 }),
      "consumer pod of CI_RUNNER has max_ack_pending 9, 4 is wanted",
    ],
    [
      "another ack wait",
      podWith({ ack_wait: 30_000_000_000 }),
      "consumer pod of CI_RUNNER has ack_wait 30000000000, 60000000000 is wanted",
    ],
    ["an age limit", queueWith({ max_age: 5_000_000_000 }), "CI_RUNNER has max_age 5000000000, 0 is wanted"],
    [
      "memory storage",
      queueWith({ storage: StorageType.Memory }),
      "CI_RUNNER has storage memory, file is wanted",
    ],
    ["a limit of messages", queueWith({ max_msgs: 100 }), "CI_RUNNER has max_msgs 100"],
    [
      "no event stream",
      found({ events: undefined }),
      "stream CI_RUNNER_EVENTS is missing, no history is kept",
    ],
  ] as const) {
    it(`warns of ${what}`, () => {
      assert.deepEqual(checkStreams(wanted, present), { fatal: [], missing: [], warnings: [sentence] });
    });
  }

  it("warns of a server that takes no large messages", () => {
    const { fatal, warnings } = checkStreams(wanted, found({ maxPayload: 1024 * 1024 }));
    assert.deepEqual(fatal, []);
    assert.match(warnings.join(), /max_payload is 1048576 bytes/);
  });

  it("takes what is missing for an outage", () => {
    const pod = found().consumers.get("pod") as ConsumerConfig;
    const partly = checkStreams(wanted, found({ consumers: new Map([["pod", pod]]) }));
    assert.deepEqual(partly.missing, ["consumer vm of CI_RUNNER"]);
    const all = checkStreams(wanted, found({ queue: undefined, state: undefined, consumers: new Map() }));
    assert.deepEqual(all, {
      fatal: [],
      missing: ["stream CI_RUNNER", "bucket stream KV_CI_RUNNER_STATE"],
      warnings: [],
    });
  });

  it("tells all differences at once", () => {
    const both = { ...podWith({ ack_policy: AckPolicy.All }), queue: queueWith({ subjects: [] }).queue };
    assert.equal(checkStreams(wanted, both).fatal.length, 2);
  });
});
