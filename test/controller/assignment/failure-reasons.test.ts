import assert from "node:assert/strict";
import { describe, it } from "mocha";
import {
  failureKind,
  failureReasons,
  isDeath,
  isFailureReason,
  isStartFailure,
} from "../../../controller/assignment/failure-reasons.ts";

describe("failure reason", () => {
  it("stands in one table only, and its table is its stage", () => {
    assert.equal(new Set(failureReasons).size, failureReasons.length);
    for (const reason of failureReasons) {
      const { stage } = failureKind(reason);
      assert.equal(isStartFailure(reason), stage === "never started", reason);
      assert.equal(isDeath(reason), stage === "died", reason);
    }
    assert.deepEqual(new Set(failureReasons.map((reason) => failureKind(reason).stage)).size, 3);
  });

  it("is a word for people and dashboards, its texts are clauses that go into a sentence", () => {
    for (const reason of failureReasons) {
      assert.match(reason, /^[a-z][a-z_]{1,24}$/);
      const { sentence, advice } = failureKind(reason);
      assert.match(sentence, /^\S.{5,118}[^\s.]$/, reason);
      assert.match(advice, /^[a-z].{5,118}[^\s.]$/, reason);
    }
  });

  it("is known from other texts, names of object properties among them", () => {
    for (const reason of failureReasons) assert.equal(isFailureReason(reason), true);
    for (const text of ["", "OOM", "toString", "__proto__", "constructor"])
      assert.equal(isFailureReason(text), false, text);
  });

  it("of a start failure waits without burning an attempt where room or an answer may come by itself", () => {
    const waited = failureReasons.filter((reason) => failureKind(reason).retry === "wait");
    assert.deepEqual(waited, ["quota", "unschedulable", "no_vm", "backend_down"]);
  });

  it("burns attempts before the claim only", () => {
    for (const reason of failureReasons)
      if (!isStartFailure(reason)) assert.equal(failureKind(reason).retry, "permanent", reason);
  });

  it("ends a job as failed, except when it was cancelled", () => {
    const others = failureReasons.filter((reason) => failureKind(reason).result !== "failure");
    assert.deepEqual(others, ["cancel_ignored"]);
  });
});
