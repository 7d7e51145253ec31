import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { ownComment } from "../../../scripts/comment-preview/own-comment.ts";

const marker = "<!-- mark -->";
const mine = -2;
const comment = (id: number, author: number | undefined, body: string) => ({ id, author, body });

describe("the comment to edit", () => {
  const find = (...comments: readonly ReturnType<typeof comment>[]) =>
    ownComment(comments, { author: mine, marker })?.id;

  it("B-95 is one's own with the marker, and nobody else's", () => {
    assert.equal(find(comment(1, 7, `${marker}\nx`), comment(2, mine, `${marker}\nx`)), 2);
    assert.equal(find(comment(1, 7, `${marker}\nx`), comment(2, undefined, `${marker}\nx`)), undefined);
  });

  it("has the marker as its first line, not somewhere in a quotation", () => {
    assert.equal(find(comment(1, mine, `> ${marker}\n`), comment(2, mine, `${marker}x`)), undefined);
    assert.equal(find(comment(1, mine, marker)), 1);
  });

  it("is the oldest of several, in whatever order they come", () => {
    assert.equal(find(comment(9, mine, `${marker}\n`), comment(3, mine, `${marker}\n`)), 3);
  });
});
