import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import {
  type Assignment,
  assignmentId,
  sameAssignment,
  taskIdOf,
} from "../../../controller/assignment/assignment.ts";
import { InvalidAssignmentError } from "../../../controller/assignment/errors.ts";
import { anAssignment } from "../../support/builders.ts";

const largest = 2n ** 63n - 1n;

describe("assignment", () => {
  it("B-03 is called gitea-task- and the task id, and gives that back", () => {
    assert.equal(assignmentId(1n), "gitea-task-1");
    assert.equal(assignmentId(largest), "gitea-task-9223372036854775807");
    fc.assert(
      fc.property(
        fc.bigInt({ min: 1n, max: largest }),
        (taskId) => taskIdOf(assignmentId(taskId)) === taskId,
      ),
    );
  });

  it("B-03 refuses a task id below 1, which Gitea never gives", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -largest, max: 0n }), (taskId) => {
        assert.throws(() => assignmentId(taskId), {
          name: "InvalidAssignmentError",
          message: `task id ${taskId} is not between 1 and 9223372036854775807`,
        });
      }),
    );
  });

  it("B-03 refuses a task id above what Gitea's protocol can carry", () => {
    assert.throws(() => assignmentId(largest + 1n), InvalidAssignmentError);
  });

  const none = [
    "",
    "gitea-task-",
    "gitea-task-0",
    "gitea-task-01",
    "gitea-task--1",
    "gitea-task-1 ",
    "gitea-task-1\n",
    "gitea-task-1-2",
    "gitea-task-0x1",
    "gitea-task-١",
    "Gitea-task-1",
    "x-gitea-task-1",
    "gitea-task-9223372036854775808",
    `gitea-task-${"9".repeat(100)}`,
  ];
  for (const text of none) {
    it(`B-03 reads no task id in ${JSON.stringify(text.slice(0, 40))}`, () => {
      assert.equal(taskIdOf(text), undefined);
    });
  }

  const others: readonly Partial<Assignment>[] = [
    { id: "gitea-task-43" },
    { taskId: 43n },
    { backend: "vm" },
    { repository: "acme/gadgets" },
    { jobKey: "test" },
    { spiffeId: "spiffe://example.org/ci/acme/widgets/test" },
    { trust: "fork" },
  ];
  const same = anAssignment();
  it("is the same as one that says the same, and every field counts", () => {
    assert.ok(sameAssignment(same, { ...same }));
    assert.deepEqual(others.flatMap(Object.keys).toSorted(), Object.keys(same).toSorted());
  });
  for (const other of others) {
    it(`is not the same with another ${Object.keys(other).join()}`, () => {
      assert.equal(sameAssignment(same, { ...same, ...other }), false);
      assert.equal(sameAssignment({ ...same, ...other }, same), false);
    });
  }
});
