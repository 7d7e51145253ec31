import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { createSlots } from "../../../controller/slots/slots.ts";

describe("slots", () => {
  it("B-40 gives as many slots as there are, and refuses the next at once", () => {
    const slots = createSlots(2);
    assert.equal(slots.acquire("a"), true);
    assert.equal(slots.acquire("b"), true);
    assert.equal(slots.acquire("c"), false);
    assert.deepEqual(slots.held(), ["a", "b"]);
    assert.equal(slots.has("c"), false);
    assert.equal(slots.free(), 0);
  });

  it("B-40 gives an id its own slot again, even when full", () => {
    const slots = createSlots(1);
    assert.equal(slots.acquire("a"), true);
    assert.equal(slots.acquire("a"), true);
    assert.deepEqual(slots.held(), ["a"]);
    slots.release("a");
    assert.equal(slots.free(), 1);
  });

  it("B-40 refuses an empty id, which would be everybody's", () => {
    const slots = createSlots(1);
    assert.throws(() => slots.acquire(""), /id is empty/);
    assert.throws(() => slots.restore(""), /id is empty/);
    assert.equal(slots.free(), 1);
  });

  it("B-40 restores beyond the capacity, and acquires nothing until below it", () => {
    const slots = createSlots(1);
    for (const id of ["a", "b", "c", "a"]) slots.restore(id);
    assert.deepEqual(slots.held(), ["a", "b", "c"]);
    assert.equal(slots.free(), 0);
    assert.equal(slots.isOverfull(), true);
    assert.equal(slots.acquire("b"), true);
    for (const id of ["a", "b"]) {
      slots.release(id);
      assert.equal(slots.acquire("d"), false);
    }
    assert.equal(slots.isOverfull(), false);
    slots.release("c");
    assert.equal(slots.acquire("d"), true);
  });

  it("B-40 releases twice without giving two slots", () => {
    const slots = createSlots(1);
    slots.acquire("a");
    slots.release("a");
    slots.release("a");
    slots.release("never had one");
    assert.equal(slots.free(), 1);
  });

  it("B-41 shares nothing between two pools", () => {
    const [pod, vm] = [createSlots(1), createSlots(1)];
    let told = 0;
    vm.onChange(() => told++);
    pod.acquire("a");
    assert.equal(vm.has("a"), false);
    assert.equal(vm.free(), 1);
    vm.release("a");
    assert.equal(pod.has("a"), true);
    assert.equal(told, 0);
  });

  it("tells of each change of what is held, and of nothing else", () => {
    const slots = createSlots(1);
    const seen: (readonly string[])[] = [];
    const stop = slots.onChange(() => seen.push(slots.held()));
    slots.acquire("a");
    slots.acquire("a");
    slots.acquire("b");
    slots.restore("b");
    slots.restore("b");
    slots.release("c");
    slots.release("a");
    stop();
    slots.release("b");
    assert.deepEqual(seen, [["a"], ["a", "b"], ["b"]]);
  });

  it("goes on telling the others when a listener stops listening", () => {
    const slots = createSlots(3);
    const told: string[] = [];
    const listener = () => told.push("both");
    const stopFirst = slots.onChange(listener);
    slots.onChange(listener);
    slots.onChange(() => stopFirst());
    slots.acquire("a");
    slots.acquire("b");
    assert.equal(told.length, 3);
  });

  for (const capacity of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    it(`refuses a capacity of ${capacity}`, () => {
      assert.throws(() => createSlots(capacity), /no integer of at least 1/);
    });
  }

  it("B-40 never exceeds the capacity by acquiring, whatever is called in whatever order", () => {
    const call = fc.record({
      name: fc.constantFrom("acquire" as const, "restore" as const, "release" as const),
      id: fc.constantFrom("a", "b", "c", "d"),
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3 }), fc.array(call), (capacity, calls) => {
        const slots = createSlots(capacity);
        for (const { name, id } of calls) {
          const before = slots.held();
          const answer = slots[name](id);
          const after = slots.held();
          if (name === "acquire") {
            assert.equal(answer, before.includes(id) || before.length < capacity);
            assert.equal(slots.has(id), answer);
            assert.ok(after.length <= Math.max(capacity, before.length));
          } else assert.equal(slots.has(id), name === "restore");
          assert.equal(slots.free(), Math.max(0, capacity - after.length));
        }
      }),
    );
  });
});
