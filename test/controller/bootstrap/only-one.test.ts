import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { describe, it } from "mocha";
import { onlyOne } from "../../../controller/bootstrap/only-one.ts";

describe("one bootstrap for an attempt", function () {
  if (process.platform !== "linux") return;

  it("has the attempt to itself until it ends", async () => {
    const capability = randomUUID();
    const first = await onlyOne(capability);
    assert.notEqual(first, undefined);
    assert.equal(await onlyOne(capability), undefined);
    await first?.[Symbol.asyncDispose]();
    const second = await onlyOne(capability);
    assert.notEqual(second, undefined);
    await second?.[Symbol.asyncDispose]();
  });

  it("leaves other attempts alone", async () => {
    await using one = await onlyOne(randomUUID());
    await using other = await onlyOne(randomUUID());
    assert.ok(one !== undefined && other !== undefined);
  });

  it("does not tell the capability", async () => {
    const capability = randomUUID();
    await using lock = await onlyOne(capability);
    assert.notEqual(lock, undefined);
    const sockets = await readFile("/proc/net/unix", "utf8");
    assert.match(sockets, /@gitea-dynamic-runner\/bootstrap\//);
    assert.ok(!sockets.includes(capability));
  });
});
