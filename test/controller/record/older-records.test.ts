import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import type { AssignmentRecord } from "../../../controller/assignment/record.ts";
import { encodeRecord } from "../../../controller/record/record-codec.ts";
import {
  createRecordStore,
  type RecordStore,
  type Versioned,
} from "../../../controller/record/record-store.ts";
import { createFakeKeyValue, type FakeKeyValue } from "../../fakes/fake-key-value.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { aRecord } from "../../support/builders.ts";
import { inPhase } from "../../support/phases.ts";

const never = new AbortController().signal;
const { id } = aRecord().assignment;

describe("records of a bucket that has lost its end", () => {
  let bucket: FakeKeyValue;
  beforeEach(() => {
    bucket = createFakeKeyValue();
  });
  const store = (writerId: string) => createRecordStore({ bucket, writerId, log: createRecordingLogger() });
  async function created(records: RecordStore, record: AssignmentRecord): Promise<Versioned> {
    const write = await records.create(record, never);
    assert.ok(write.kind === "stored");
    return write.stored;
  }
  async function updated(
    records: RecordStore,
    record: AssignmentRecord,
    revision: number,
  ): Promise<Versioned> {
    const write = await records.update(record, revision, never);
    assert.ok(write.kind === "stored");
    return write.stored;
  }
  const phase = async () => (await store("a reader").get(id, never))?.record.phase.name;

  it("are no conflict: what is written takes their place", async () => {
    const records = store("this one");
    const first = await created(records, aRecord());
    const second = await updated(records, inPhase("starting"), first.revision);
    bucket.setBack(first.revision);
    const third = await updated(records, inPhase("claimed"), second.revision);
    assert.equal(await phase(), "claimed");
    await updated(records, inPhase("finished"), third.revision);
    assert.equal(await phase(), "finished");
  });

  it("are written anew as they were known, also those that an earlier controller has written", async () => {
    const earlier = store("an earlier one");
    const first = await created(earlier, aRecord());
    const second = await updated(earlier, inPhase("starting"), first.revision);
    const records = store("this one");
    assert.deepEqual((await records.list(never)).records, [second]);
    bucket.setBack(first.revision);
    assert.deepEqual((await records.list(never)).records, [first]);
    await created(records, second.record);
    assert.equal(await phase(), "starting");
  });

  it("are told from those that another controller has changed meanwhile, whatever the revision", async () => {
    const records = store("this one");
    const first = await created(records, aRecord());
    const other = store("the other one");
    await other.list(never);
    bucket.setBack(0);
    await created(other, inPhase("starting"));
    const current = await updated(other, inPhase("claimed"), bucket.revision);
    assert.deepEqual(await records.update(inPhase("ending"), first.revision + 7, never), {
      kind: "conflict",
      current,
    });
  });

  it("are also those of an older version, which did not count its writes", async () => {
    const old = encodeRecord(aRecord(), { id: "an older version", counter: 3 });
    await bucket.write(id, old, 0, never);
    const records = store("this one");
    const [found] = (await records.list(never)).records;
    const second = await updated(records, inPhase("starting"), found?.revision ?? 0);
    bucket.setBack(1);
    await updated(records, inPhase("claimed"), second.revision);
    assert.equal(await phase(), "claimed");
  });

  it("count anew for one that was removed", async () => {
    const records = store("this one");
    const first = await created(records, aRecord());
    await updated(records, inPhase("finished"), first.revision);
    await records.remove(id, undefined, never);
    const other = store("the other one");
    const current = await created(other, aRecord());
    assert.deepEqual(await records.create(inPhase("starting"), never), { kind: "conflict", current });
  });
});
