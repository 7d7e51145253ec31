import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { changesAt, executorState, stillBlocked } from "../../../../controller/backends/pod/patience.ts";
import { type PodReading, readPod } from "../../../../controller/backends/pod/pod-status.ts";
import { graceMs, pullQuietMs } from "../../../../controller/backends/pod/start-causes.ts";
import { aPod, podFixture } from "../../../support/pod-fixtures.ts";

const t0 = 1_000_000;

function readingOf(name: string): PodReading {
  const { pod, events } = podFixture(name);
  return readPod(pod, events);
}

/** What the worker is told at these times of a Pod that reads like that from `t0` on. */
function told(reading: PodReading, ...times: readonly number[]): readonly (string | undefined)[] {
  const blocked = stillBlocked(undefined, reading, t0);
  return times.map((at) => {
    const state = executorState(reading, stillBlocked(blocked, reading, t0 + at), t0 + at);
    return state.phase === "starting" ? state.waiting?.reason : state.phase;
  });
}

describe("patience with an obstacle", () => {
  it("is none with what nothing will change", () => {
    assert.deepEqual(told(readingOf("InvalidImageName"), 0), ["image_invalid"]);
  });

  it("ends with the grace of what may pass by itself, which is told of at once", () => {
    const reading = readingOf("ErrImagePull-404");
    assert.deepEqual(told(reading, 0, graceMs - 1, graceMs), ["too_slow", "too_slow", "image_missing"]);
    const state = executorState(reading, undefined, t0);
    assert.ok(state.phase === "starting");
    assert.match(state.waiting?.evidence ?? "", /^ErrImagePull: .*: not found$/);
  });

  it("has no end of its own with what is waited for", () => {
    assert.deepEqual(told(readingOf("Unschedulable"), 0, 3_600_000), ["unschedulable", "unschedulable"]);
  });

  it("is silent about a pull that takes its time, for a while", () => {
    const reading = readingOf("ContainerCreating-pull-hangs");
    assert.deepEqual(told(reading, 0, pullQuietMs - 1, pullQuietMs), [
      undefined,
      undefined,
      "image_pull_slow",
    ]);
  });

  it("leaves alone what has no obstacle", () => {
    assert.deepEqual(told(readingOf("Completed"), 0), ["ended"]);
    assert.deepEqual(told(readPod(aPod({}), []), 0, graceMs), [undefined, undefined]);
  });

  it("goes on while a kubelet says the same in other words, and begins anew with another obstacle", () => {
    const pulling = stillBlocked(undefined, readingOf("ErrImagePull-404"), t0);
    const backingOff = stillBlocked(pulling, readingOf("ImagePullBackOff-404"), t0 + 5_000);
    assert.equal(backingOff?.since, t0);
    const other = stillBlocked(backingOff, readingOf("ErrImagePull-401"), t0 + 6_000);
    assert.deepEqual(other, { reason: "image_pull_refused", since: t0 + 6_000 });
    const none = stillBlocked(other, readPod(aPod({}), []), t0 + 7_000);
    assert.equal(none, undefined);
    assert.equal(stillBlocked(none, readingOf("ErrImagePull-401"), t0 + 8_000)?.since, t0 + 8_000);
  });

  it("says when it will be over", () => {
    const at = (name: string, after: number) => {
      const reading = readingOf(name);
      return changesAt(reading, stillBlocked(undefined, reading, t0), t0 + after);
    };
    assert.equal(at("ErrImagePull-404", 0), t0 + graceMs);
    assert.equal(at("ErrImagePull-404", graceMs), undefined);
    assert.equal(at("ContainerCreating-pull-hangs", 1), t0 + pullQuietMs);
    for (const name of ["InvalidImageName", "Unschedulable", "Completed", "NodeLost-unreachable"])
      assert.equal(at(name, 0), undefined);
  });
});
