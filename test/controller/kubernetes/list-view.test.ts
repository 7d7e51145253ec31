import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createListView } from "../../../controller/kubernetes/list-view.ts";

describe("the documents of a collection in memory", () => {
  const one = (name: string, resourceVersion: string) => ({
    name,
    uid: `uid of ${name}`,
    resourceVersion,
    document: { name, resourceVersion },
  });

  it("are the same array until one of them comes, changes or goes, so that nobody looks twice", () => {
    const view = createListView();
    const changes = [
      () => view.replace([one("a", "1"), one("b", "1")]),
      () => view.apply("ADDED", one("c", "2")),
      () => view.apply("MODIFIED", one("a", "3")),
      () => view.apply("DELETED", one("b", "4")),
      () => view.replace([one("c", "2")]),
      () => view.replace([]),
    ];
    const seen = [view.all()];
    for (const change of changes) {
      change();
      assert.ok(!seen.includes(view.all()));
      seen.push(view.all());
      assert.equal(view.all(), seen.at(-1));
    }
    assert.deepEqual(
      seen.map((documents) => documents.length),
      [0, 2, 3, 3, 2, 1, 0],
    );
  });
});
