import assert from "node:assert/strict";
import { describe, it } from "mocha";
import type { KeyValue } from "../../../controller/platform/key-value.ts";
import { createLeaderKey } from "../../../controller/record/leader-key.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createFakeKeyValue } from "../../fakes/fake-key-value.ts";

const never = new AbortController().signal;
const leads = () => undefined;

function keyOf(identity: string, bucket: Pick<KeyValue, "read" | "write"> = createFakeKeyValue()) {
  const clock = createFakeClock();
  return { clock, bucket, key: createLeaderKey({ bucket, identity, pollMs: 2_000, clock }) };
}

describe("the key of who leads", () => {
  it("tells a leader of the one that came after it, and nobody of itself", async () => {
    const first = keyOf("first");
    await first.key.write(leads, never);
    const told = first.key.superseded(never);
    await first.clock.step(60_000);
    assert.deepEqual(first.clock.pending(), [2_000]);
    await keyOf("second", first.bucket).key.write(leads, never);
    await first.clock.step(2_000);
    await told;
    assert.deepEqual(first.clock.pending(), []);
  });

  it("takes no absence, and no outage, for another leader", async () => {
    const bucket = createFakeKeyValue();
    let away = true;
    const { clock, key } = keyOf("first", {
      ...bucket,
      read: async (...call) => {
        if (away) throw new Error("no responders");
        return bucket.read(...call);
      },
    });
    const stop = new AbortController();
    const told = key.superseded(stop.signal);
    await clock.step(10_000);
    away = false;
    await clock.step(10_000);
    assert.deepEqual(clock.pending(), [2_000]);
    stop.abort(new Error("SIGTERM"));
    await assert.rejects(told, /SIGTERM/);
  });

  it("is not written by a process that stood still and leads no more", async () => {
    const second = keyOf("second");
    await second.key.write(leads, never);
    const late = keyOf("first", second.bucket).key.write(() => {
      throw new Error("leads no more");
    }, never);
    await assert.rejects(late, /leads no more/);
    assert.equal(new TextDecoder().decode((await second.bucket.read("leader", never))?.value), "second");
  });

  it("is to be written once more when it cannot be, or when somebody else has written it meanwhile", async () => {
    const bucket = createFakeKeyValue();
    const hurried = keyOf("first", {
      ...bucket,
      read: async (...call) => {
        const found = await bucket.read(...call);
        await bucket.write("leader", new TextEncoder().encode("second"), found?.revision ?? 0, never);
        return found;
      },
    });
    await assert.rejects(hurried.key.write(leads, never), { name: "RecordStoreUnavailableError" });
    const gone = keyOf("first", { ...bucket, write: () => Promise.reject(new Error("no responders")) });
    await assert.rejects(gone.key.write(leads, never), { name: "RecordStoreUnavailableError" });
  });
});
