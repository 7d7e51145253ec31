import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import {
  createObjectView,
  type ObjectView,
  type Versioned,
} from "../../../controller/kubernetes/object-view.ts";
import type { WatchEvent } from "../../../controller/kubernetes/kubernetes-api.ts";
import { createFakeClock, type FakeClock } from "../../fakes/fake-clock.ts";

function anObject(resourceVersion: number, uid = "u1", name = "a"): Versioned {
  return { name, uid, resourceVersion: String(resourceVersion) };
}

describe("the view of a collection", () => {
  let documents: Versioned[];
  let tell: (event: WatchEvent) => void;
  let gone: Versioned[];
  let changed: string[];
  let clock: FakeClock;
  let view: ObjectView<Versioned>;

  beforeEach(() => {
    documents = [];
    gone = [];
    changed = [];
    clock = createFakeClock();
    view = createObjectView({
      list: {
        documents: () => documents,
        onChange: (listener) => {
          tell = listener;
          return () => undefined;
        },
      },
      parse: (document) => document as Versioned,
      onGone: (last) => void gone.push(last),
      onChange: (name) => void changed.push(name),
      steady: () => clock.now(),
    });
  });

  const watched = (object: Versioned) => {
    const type = documents.some(({ name }) => name === object.name) ? "MODIFIED" : "ADDED";
    documents = [...documents.filter(({ name }) => name !== object.name), object];
    tell({ type, object });
  };
  const deleted = (object: Versioned) => {
    documents = documents.filter(({ name }) => name !== object.name);
    tell({ type: "DELETED", object });
  };

  it("is what the watch shows", () => {
    watched(anObject(1));
    watched(anObject(2, "u2", "b"));
    assert.deepEqual(view.all(), [anObject(1), anObject(2, "u2", "b")]);
    assert.deepEqual(view.get("a"), anObject(1));
    assert.equal(view.get("c"), undefined);
    assert.deepEqual(changed, ["a", "b"]);
  });

  it("has what a call answered before the watch shows it", () => {
    view.note(anObject(5));
    assert.deepEqual(view.all(), [anObject(5)]);
    assert.deepEqual(changed, ["a"]);
  });

  it("takes the later of what the watch shows and what a call answered, whichever comes first", () => {
    watched(anObject(9));
    view.note(anObject(10));
    assert.deepEqual(view.get("a"), anObject(10));
    view.note(anObject(8));
    assert.deepEqual(view.get("a"), anObject(10));
    watched(anObject(11));
    assert.deepEqual(view.get("a"), anObject(11));
  });

  it("tells once of what is gone, with its last state", () => {
    watched(anObject(1));
    deleted(anObject(4));
    assert.deepEqual(gone, [anObject(4)]);
    assert.deepEqual(view.all(), []);
  });

  it("tells of what a new list lacks, and of what was made anew under its name", () => {
    watched(anObject(1));
    watched(anObject(2, "u2", "b"));
    documents = [anObject(7, "u3")];
    assert.deepEqual(view.all(), [anObject(7, "u3")]);
    assert.deepEqual(gone, [anObject(1), anObject(2, "u2", "b")]);
  });

  it("tells the state that a call answered as the last one, if that is later", () => {
    watched(anObject(1));
    view.note(anObject(3));
    deleted(anObject(2));
    assert.deepEqual(gone, [anObject(3)]);
    assert.deepEqual(view.all(), []);
  });

  it("does not bring back what is gone by an answer that comes late", () => {
    watched(anObject(1));
    deleted(anObject(4));
    view.note(anObject(3));
    assert.deepEqual(view.all(), []);
  });

  it("does not bring back by a watch that is behind what a read says is gone", () => {
    watched(anObject(1));
    view.noteGone(anObject(1));
    assert.deepEqual(view.all(), []);
    watched(anObject(2));
    assert.deepEqual(view.all(), []);
    deleted(anObject(3));
    assert.deepEqual(gone, [anObject(1)]);
  });

  it("has an object again that had only lost its labels", () => {
    watched(anObject(1));
    deleted(anObject(4));
    watched(anObject(6));
    assert.deepEqual(view.all(), [anObject(6)]);
    deleted(anObject(7));
    assert.deepEqual(gone, [anObject(4), anObject(7)]);
  });

  it("keeps another of the same name apart from one that is gone", () => {
    watched(anObject(1));
    deleted(anObject(4));
    view.note(anObject(6, "u2"));
    assert.deepEqual(view.all(), [anObject(6, "u2")]);
    assert.deepEqual(gone, [anObject(4)]);
  });

  it("names what only a call has told of for too long", async () => {
    view.note(anObject(5));
    view.note(anObject(6, "u2", "b"));
    watched(anObject(6, "u2", "b"));
    assert.deepEqual(view.unconfirmed(5_000), []);
    await clock.step(5_000);
    assert.deepEqual(view.unconfirmed(5_000), [anObject(5)]);
    view.noteGone(anObject(5));
    assert.deepEqual(view.unconfirmed(5_000), []);
    assert.deepEqual(gone, [anObject(5)]);
  });

  it("trusts the watch where versions cannot be compared", () => {
    watched({ ...anObject(1), resourceVersion: "opaque" });
    view.note(anObject(2));
    assert.equal(view.get("a")?.resourceVersion, "opaque");
  });
});
