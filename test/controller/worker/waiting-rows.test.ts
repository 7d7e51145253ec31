import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { failureFor } from "../../../controller/assignment/failure.ts";
import { BackendError } from "../../../controller/backends/backend.ts";
import { aContent } from "../../fakes/fake-queue.ts";
import { aRecord } from "../../support/builders.ts";
import { createLaneUnderTest, type LaneUnderTest, never } from "../../support/lane-under-test.ts";
import { maxWaitingRows, nothingTold, waitingRow } from "../../../controller/worker/waiting-row.ts";

const content = aContent();
const { assignment } = content;
const { id, taskId } = assignment;
const unschedulable = failureFor("unschedulable", "0/3 nodes are available: 3 Insufficient cpu");

describe("the row that tells a job why it waits", () => {
  const times = { retryMs: 15_000 };
  const quota = failureFor("quota", "exceeded quota");

  it("says what is waited for, by name, and what was seen at its end", () => {
    const row = waitingRow(aRecord(), unschedulable, nothingTold, 0, times);
    assert.equal(
      row?.text,
      "This job waits: no node has room for its executor or fits it. It is tried again by itself. " +
        "Reason: unschedulable. Seen: 0/3 nodes are available: 3 Insufficient cpu",
    );
  });

  it("says of what may still pass that it has not passed yet", () => {
    const mount = failureFor("too_slow", 'FailedMount: secret "absent" not found');
    assert.equal(
      waitingRow(aRecord(), mount, nothingTold, 0, times)?.text,
      'This job waits: its executor cannot start yet. It is tried again by itself. Reason: too_slow. Seen: FailedMount: secret "absent" not found',
    );
  });

  it("comes once for a reason, and 30 s after another one at the earliest", () => {
    const first = waitingRow(aRecord(), unschedulable, nothingTold, 0, times);
    assert.ok(first !== undefined);
    assert.equal(waitingRow(aRecord(), unschedulable, first.told, 1e9, times), undefined);
    assert.equal(waitingRow(aRecord(), quota, first.told, 29_999, times), undefined);
    assert.match(waitingRow(aRecord(), quota, first.told, 30_000, times)?.text ?? "", /quota/);
  });

  it("does not come when nothing is waited for", () => {
    assert.equal(waitingRow(aRecord(), undefined, nothingTold, 0, times), undefined);
  });

  it("tells of each lost attempt once, also when the next one has begun", () => {
    const attempts = { begun: 1, burnt: 1, lost: failureFor("start_oom", "exit code 137") };
    const row = waitingRow(aRecord({ attempts }), undefined, nothingTold, 0, times);
    assert.match(row?.text ?? "", /^Executor 1 of this job is lost: its executor ran out of memory/);
    assert.match(row?.text ?? "", /Reason: start_oom. Seen: exit code 137$/);
    assert.ok(row !== undefined);
    const starting = aRecord({
      attempts: { ...attempts, begun: 2 },
      phase: { name: "starting", attempt: { number: 2, nonce: "0" }, since: 0, deadlineAt: 1e9 },
    });
    assert.equal(waitingRow(starting, undefined, row.told, 1e9, times), undefined);
    assert.match(waitingRow(starting, undefined, nothingTold, 0, times)?.text ?? "", /^Executor 1 /);
  });

  it("comes twenty times and no more", () => {
    let told = nothingTold;
    for (let i = 0; i < 100; i++) {
      const row = waitingRow(aRecord(), i % 2 === 0 ? quota : unschedulable, told, i * 60_000, times);
      told = row?.told ?? told;
    }
    assert.equal(told.rows, maxWaitingRows);
    assert.equal(maxWaitingRows, 20);
  });

  it("is one line, whatever was seen", () => {
    const row = waitingRow(aRecord(), failureFor("quota", "a\nb\u202ec"), nothingTold, 0, times);
    assert.match(row?.text ?? "", /Seen: a b c$/);
  });
});

describe("telling waiting jobs why they wait", () => {
  const open: LaneUnderTest[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.stop();
  });
  function lane(options: Parameters<typeof createLaneUnderTest>[0] = {}): LaneUnderTest {
    const one = createLaneUnderTest(options);
    open.push(one);
    one.backend.startsAtOnce = false;
    one.queue.publish(content);
    return one;
  }
  /** Its executor finds no room. */
  async function withoutRoom(): Promise<LaneUnderTest> {
    const one = lane();
    await one.assignments.offer({ ...content, sequence: 1, isNew: true }, new AbortController().signal);
    one.run();
    await one.clock.step(0);
    one.backend.wait(one.executor(assignment), unschedulable);
    await one.clock.step(0);
    return one;
  }
  const rows = (one: LaneUnderTest) => one.logs.of(taskId);
  const errors = ({ log }: LaneUnderTest) =>
    log.lines.map(({ fields }) => String(fields["error"])).filter((error) => error.includes("why it waits"));

  it("I7 tells a job within 30 s that its executor finds no room, after writing down that rows begin", async () => {
    const one = await withoutRoom();
    await one.clock.step(5_000);
    assert.match(rows(one).join("\n"), /^This job waits: no node has room/);
    assert.equal(one.record(assignment).rowsBegun, true);
    await one.clock.step(120_000);
    assert.equal(rows(one).length, 1);
  });

  it("writes no row before the record says that rows begin", async () => {
    const one = await withoutRoom();
    one.store.failNext("update", new Error("no answer"));
    await one.clock.step(4_000);
    assert.deepEqual(rows(one), []);
    assert.equal(errors(one).length, 1);
    await one.clock.step(30_000);
    assert.equal(rows(one).length, 1, "it is tried again");
  });

  it("I7 tells a job of its lost attempt", async () => {
    const one = lane();
    one.run();
    await one.clock.step(0);
    one.backend.end(one.executor(assignment), "exited with code 1");
    await one.clock.step(10_000);
    assert.match(rows(one).join("\n"), /^Executor 1 of this job is lost: .*Seen: exited with code 1$/);
  });

  it("I7 tells every job of a backend that keeps failing, also those that were not tried", async () => {
    const one = lane({ capacity: 1 });
    const other = aContent({ taskId: 43n });
    for (let i = 0; i < 100; i++) one.backend.failNext("create", new BackendError("retryable", "refused"));
    await one.assignments.offer({ ...other, sequence: one.queue.publish(other) }, never);
    one.run();
    await one.clock.step(60_000);
    for (const each of [42n, 43n])
      assert.match(one.logs.of(each).join("\n"), /^This job waits: the backend .*Seen: refused$/);
  });

  it("tells a job of the quota", async () => {
    const one = lane();
    one.backend.failNext("create", new BackendError("retryable", "exceeded", { reason: "quota" }));
    one.run();
    await one.clock.step(5_000);
    assert.match(rows(one).join("\n"), /Reason: quota. Seen: exceeded/);
  });

  it("writes behind the rows that are there", async () => {
    const one = await withoutRoom();
    one.logs.add(taskId, "an earlier row");
    await one.clock.step(5_000);
    assert.equal(rows(one).length, 2);
  });

  it("writes nothing after the claim, and a claim waits for a row that is being written", async () => {
    const one = await withoutRoom();
    const release = one.logs.hold();
    await one.clock.step(3_000);
    let claimed = false;
    const claiming = one.claim(assignment).then(() => (claimed = true));
    await one.clock.step(0);
    assert.equal(claimed, false);
    release();
    await one.clock.step(0);
    await claiming;
    assert.equal(rows(one).length, 1);
    await one.clock.step(120_000);
    assert.equal(rows(one).length, 1);
  });

  it("keeps no claim waiting for longer than some seconds when Gitea does not answer", async () => {
    const one = await withoutRoom();
    one.logs.hold();
    await one.clock.step(3_000);
    const claiming = one.claim(assignment);
    await one.clock.step(4_000);
    await claiming;
    assert.equal(one.phase(), "claimed 1");
  });

  it("waits for its turn in the task's log", async () => {
    const one = await withoutRoom();
    const { promise, resolve } = Promise.withResolvers<void>();
    const other = one.logLanes.run(id, () => promise);
    await one.clock.step(3_000);
    assert.deepEqual(rows(one), []);
    resolve();
    await other;
    await one.clock.step(0);
    assert.equal(rows(one).length, 1);
  });

  it("does not write a row twice whose answer got lost", async () => {
    const one = await withoutRoom();
    one.logs.failNext("appendRow", new Error("no answer"), { done: true });
    await one.clock.step(120_000);
    assert.equal(rows(one).length, 1);
  });

  it("goes on when Gitea does not take rows, without asking all the time", async () => {
    const one = await withoutRoom();
    for (let i = 0; i < 100; i++) one.logs.failNext("appendRow", new Error("the log is closed"));
    await one.clock.step(120_000);
    assert.ok(errors(one).length >= 3 && errors(one).length <= 9, String(errors(one).length));
    assert.equal(one.phase(), "starting 1");
  });

  it("tells nothing of a job whose end is decided", async () => {
    const one = await withoutRoom();
    await one.apply(assignment, { type: "cancel_told" });
    await one.clock.step(60_000);
    assert.deepEqual(rows(one), []);
  });
});
