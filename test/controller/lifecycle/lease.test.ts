import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import {
  defaultLeaseTimes as times,
  type LeaseRecord,
  type LeaseView,
  msLeft,
  nextLeaseMove,
  observe,
  recordOf,
  releasedRecord,
  type StoredLease,
  wrote,
} from "../../../controller/lifecycle/lease.ts";

const wall = Date.parse("2026-01-01T00:00:00Z");
const later = wall + 2_000;

function aLease(changes: Partial<LeaseRecord> = {}, version = "1"): StoredLease {
  const record: LeaseRecord = {
    holder: "a",
    durationSeconds: 15,
    acquireTime: "2026-01-01T00:00:00.000Z",
    renewTime: "2026-01-01T00:00:00.000Z",
    transitions: 3,
    ...changes,
  };
  return { record, version };
}

const renewed = aLease({ renewTime: "2026-01-01T00:00:02.000Z" }, "2");
const stranger: LeaseView = { identity: "b" };
const leader = wrote({ identity: "a" }, aLease(), 1_000, 1_500);

describe("the Lease that says who leads", () => {
  describe("to a follower", () => {
    it("is free when there is none, and when it was released", () => {
      assert.deepEqual(nextLeaseMove(observe(stranger, undefined, 5), 5, times), { do: "write" });
      const released = observe(stranger, aLease({ holder: "" }), 5);
      assert.deepEqual(nextLeaseMove(released, 5, times), { do: "write" });
    });

    it("is taken for as long as it lasts, from when it was first seen to say so", () => {
      const view = observe(observe(stranger, aLease(), 5_000), aLease(), 19_000);
      assert.deepEqual(nextLeaseMove(view, 19_000, times), { do: "wait", ms: 1_000 });
      assert.deepEqual(nextLeaseMove(view, 20_000, times), { do: "write" });
    });

    it("is taken for as long when somebody deletes it, until its holder makes it anew", () => {
      const view = observe(observe(observe(stranger, aLease(), 5_000), undefined, 6_000), undefined, 8_000);
      assert.deepEqual(nextLeaseMove(view, 8_000, times), { do: "wait", ms: 12_000 });
      assert.deepEqual(nextLeaseMove(view, 20_000, times), { do: "write" });
      const anew = observe(view, renewed, 9_000);
      assert.deepEqual(nextLeaseMove(anew, 20_000, times), { do: "wait", ms: 4_000 });
    });

    it("is taken anew with every renewal", () => {
      const view = observe(observe(stranger, aLease(), 5_000), renewed, 19_000);
      assert.deepEqual(nextLeaseMove(view, 20_000, times), { do: "wait", ms: 14_000 });
    });

    it("is not kept alive by writes that leave the record as it is", () => {
      const view = observe(observe(stranger, aLease(), 5_000), aLease({}, "9"), 19_000);
      assert.equal(view.seen?.version, "9");
      assert.deepEqual(nextLeaseMove(view, 20_000, times), { do: "write" });
    });

    it("lasts as long as it says, and never shorter than ours", () => {
      const long = observe(stranger, aLease({ durationSeconds: 60 }), 0);
      assert.deepEqual(nextLeaseMove(long, 59_000, times), { do: "wait", ms: 1_000 });
      for (const durationSeconds of [1, 0, -5]) {
        const short = observe(stranger, aLease({ durationSeconds }), 0);
        assert.deepEqual(nextLeaseMove(short, 14_000, times), { do: "wait", ms: 1_000 });
      }
    });

    it("is not judged by the times in it, whatever they say", () => {
      for (const renewTime of ["2000-01-01T00:00:00Z", "2100-01-01T00:00:00Z", "yesterday", ""]) {
        const view = observe(stranger, aLease({ renewTime }), 0);
        assert.deepEqual(nextLeaseMove(view, 14_999, times), { do: "wait", ms: 1 });
      }
    });

    it("is its own when it names it: that was the same process before it was started anew", () => {
      assert.deepEqual(nextLeaseMove(observe({ identity: "a" }, aLease(), 0), 0, times), { do: "write" });
    });
  });

  describe("to its holder", () => {
    it("is to be renewed", () => {
      assert.deepEqual(nextLeaseMove(leader, 10_999, times), { do: "write" });
    });

    it("is lost by the renew deadline, counted from before the last write was sent", () => {
      assert.equal(msLeft(leader, 10_999, times), 1);
      assert.equal(msLeft(leader, 11_000, times), 0);
      assert.deepEqual(nextLeaseMove(leader, 11_000, times), {
        do: "lost",
        why: "it could not be renewed for 10 s",
      });
    });

    it("is lost by then also if it still names it", () => {
      const view = observe(leader, aLease(), 11_000);
      assert.equal(nextLeaseMove(view, 11_000, times).do, "lost");
    });

    it("is lost as soon as another one is seen to hold it, or nobody", () => {
      const taken = observe(leader, aLease({ holder: "b" }, "2"), 2_000);
      assert.deepEqual(nextLeaseMove(taken, 2_000, times), { do: "lost", why: "b has taken it" });
      const released = observe(leader, aLease({ holder: "" }, "2"), 2_000);
      assert.deepEqual(nextLeaseMove(released, 2_000, times), { do: "lost", why: "somebody released it" });
    });

    it("is made anew when somebody deleted it", () => {
      const view = observe(leader, undefined, 2_000);
      assert.deepEqual(nextLeaseMove(view, 2_000, times), { do: "write" });
      assert.equal(nextLeaseMove(view, 11_000, times).do, "lost");
    });

    it("is nothing to act on for who never held it", () => {
      assert.equal(msLeft(stranger, 0, times), 0);
    });
  });

  describe("in what is written", () => {
    it("names the holder, and counts the takeovers", () => {
      assert.deepEqual(recordOf(stranger, wall, times), {
        holder: "b",
        durationSeconds: 15,
        acquireTime: "2026-01-01T00:00:00.000Z",
        renewTime: "2026-01-01T00:00:00.000Z",
        transitions: 0,
      });
      assert.deepEqual(recordOf(observe(stranger, aLease(), 0), later, times), {
        holder: "b",
        durationSeconds: 15,
        acquireTime: "2026-01-01T00:00:02.000Z",
        renewTime: "2026-01-01T00:00:02.000Z",
        transitions: 4,
      });
    });

    it("keeps when it was acquired with each renewal", () => {
      assert.deepEqual(recordOf(leader, later, times), renewed.record);
    });

    it("names nobody once it is released, which only its holder may do", () => {
      assert.deepEqual(releasedRecord(leader, later), {
        holder: "",
        durationSeconds: 1,
        acquireTime: "2026-01-01T00:00:02.000Z",
        renewTime: "2026-01-01T00:00:02.000Z",
        transitions: 3,
      });
      assert.equal(releasedRecord(stranger, later), undefined);
      assert.equal(releasedRecord(observe(stranger, aLease(), 0), later), undefined);
    });
  });

  it("B-24 never lets a follower in before its holder has stopped, whatever their clocks show", () => {
    const ms = fc.integer({ min: 0, max: 60_000 });
    const offset = fc.integer({ min: -1_000_000, max: 1_000_000 });
    fc.assert(
      fc.property(ms, ms, ms, offset, offset, (onTheWay, unseen, waited, ofLeader, ofFollower) => {
        // In true time it is sent at 0, is in the Lease after `onTheWay`, and is first seen there after `unseen`.
        const holder = wrote({ identity: "a" }, renewed, ofLeader, ofLeader + onTheWay);
        const seenAt = onTheWay + unseen;
        const follower = observe(stranger, renewed, seenAt + ofFollower);
        const now = seenAt + waited;
        const move = nextLeaseMove(follower, now + ofFollower, times);
        if (move.do === "write") assert.ok(msLeft(holder, now + ofLeader, times) <= -5_000);
      }),
    );
  });
});
