import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { type ExecutorMetadata, terminalLabel } from "../../../../controller/assignment/executor-metadata.ts";
import { BackendError } from "../../../../controller/backends/backend.ts";
import type { JsonObject } from "../../../../controller/kubernetes/json.ts";
import { type PodDocument, parsePod } from "../../../../controller/backends/pod/pod-document.ts";
import {
  belongsTo,
  executorOfPod,
  existingExecutor,
} from "../../../../controller/backends/pod/pod-executor.ts";
import { executorPod } from "../../../../controller/backends/pod/pod-spec.ts";
import { anExecutorRequest } from "../../../support/backend-contract.ts";
import { anAttempt, anExecutorMetadata, testStart, testTrustDomain } from "../../../support/builders.ts";
import { podSettings } from "../../../support/pod.ts";

const created = "2026-01-01T00:00:00Z";
const from = { trustDomain: testTrustDomain, seenAt: testStart + 5_000 };
const running = { phase: "running" } as const;

/** The Pod that is made for this, as the API gives it back. */
function podOf(overrides: Parameters<typeof anExecutorRequest>[1] = {}): PodDocument {
  const { metadata, ...pod } = executorPod(anExecutorRequest("pod", overrides), podSettings(), testStart);
  return parsePod({ ...pod, metadata: { ...(metadata as JsonObject), creationTimestamp: created } });
}

function withLabel(pod: PodDocument, label: string, value: string): PodDocument {
  return { ...pod, labels: { ...pod.labels, [`ci.ddupan.top/${label}`]: value } };
}

function metadataOf(pod: PodDocument): ExecutorMetadata {
  const found = executorOfPod(pod, running, from);
  assert.ok(found.kind === "executor");
  return found.executor.metadata;
}

describe("the executor that a Pod is", () => {
  it("B-51 has the metadata, and the age, that its Pod was made with", () => {
    const pod = podOf({ attempt: anAttempt({ number: 2 }) });
    const found = executorOfPod(pod, running, from);
    assert.ok(found.kind === "executor");
    const { name, metadata, state, createdAt } = found.executor;
    assert.equal(name, pod.name);
    assert.deepEqual(metadata, anExecutorMetadata({ attempt: anAttempt({ number: 2 }) }));
    assert.deepEqual([state, createdAt], [running, testStart]);
  });

  it("B-52 is terminal by its label", () => {
    assert.equal(metadataOf(podOf()).terminal, false);
    assert.equal(
      metadataOf({ ...podOf(), labels: { ...podOf().labels, [terminalLabel]: "true" } }).terminal,
      true,
    );
  });

  for (const [title, pod, reason] of [
    ["a label was edited by hand", withLabel(podOf(), "task-id", "7"), /^ci\.ddupan\.top\/task-id is "7"/],
    [
      "it has another's metadata",
      { ...podOf(), name: "other" },
      /^its metadata is that of gitea-task-42-1-0{8}$/,
    ],
    ["it has none", parsePod({ metadata: { name: "bare" } }), /^ci\.ddupan\.top\/runner is missing/],
  ] as const)
    it(`is told apart when ${title}`, () => {
      const found = executorOfPod(pod, running, from);
      assert.ok(found.kind === "invalid");
      assert.equal(found.invalid.name, pod.name);
      assert.match(found.invalid.reason, reason);
    });

  it("counts as new when the API does not say when it was made", () => {
    const found = executorOfPod({ ...podOf(), createdAt: undefined }, running, from);
    assert.ok(found.kind === "executor");
    assert.equal(found.executor.createdAt, from.seenAt);
  });

  it("is ours by its owner and backend, and to be seen by us when its backend cannot be read", () => {
    const { owner } = anExecutorMetadata();
    assert.equal(belongsTo(podOf(), owner), true);
    assert.equal(belongsTo(withLabel(podOf(), "backend", "nonsense"), owner), true);
    assert.equal(belongsTo(withLabel(podOf(), "backend", "vm"), owner), false);
    assert.equal(belongsTo(podOf(), "another"), false);
    assert.equal(belongsTo(parsePod({ metadata: { name: "foreign" } }), owner), false);
  });
});

describe("a Pod that a create finds under its name", () => {
  const wanted = anExecutorMetadata();
  const find = (pod: PodDocument, phase: "starting" | "running" | "ended" = "running") =>
    existingExecutor(executorOfPod(pod, phase === "ended" ? { phase, reason: "" } : { phase }, from), wanted);
  const refused = (kind: BackendError["kind"]) => (error: unknown) =>
    error instanceof BackendError && error.kind === kind;

  it("B-53 is the executor if all that is written on it is the same, and it lives", () => {
    assert.equal(find(podOf(), "starting").name, "gitea-task-42-1-00000000");
    assert.equal(find(podOf()).state.phase, "running");
  });

  it("is in the way until it is deleted if it has ended", () => {
    assert.throws(() => find(podOf(), "ended"), refused("retryable"));
  });

  it("is in the way for ever if it is somebody else's", () => {
    const other = anAttempt({ nonce: `${"0".repeat(8)}${"f".repeat(24)}` });
    for (const pod of [
      podOf({ owner: "another" }),
      podOf({ attempt: other }),
      podOf({ assignment: { jobKey: "deploy" } }),
      parsePod({ metadata: { name: "gitea-task-42-1-00000000" } }),
    ])
      assert.throws(() => find(pod), refused("terminal"));
  });
});
