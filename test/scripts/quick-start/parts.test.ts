import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { createParts, type Part } from "../../../scripts/quick-start/parts.ts";
import { settle } from "../../fakes/fake-clock.ts";

/** A program that ends when it is told, or by itself. */
function aPart(overrides: Partial<Part> & { readonly stubborn?: boolean } = {}) {
  const { promise: exited, resolve: end } = Promise.withResolvers<string>();
  const calls: string[] = [];
  const part: Part = {
    name: "the program",
    logFile: "",
    exited,
    stop: async () => {
      calls.push("stop");
      if (overrides.stubborn !== true) end("exit code 0");
      await exited;
    },
    kill: () => {
      calls.push("kill");
      end("SIGKILL");
    },
    ...overrides,
  };
  return { part, end, calls };
}

const forever = () => new AbortController().signal;

describe("the parts of a run", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "parts-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("fail as soon as one ends by itself, with the end of its log", async () => {
    const logFile = path.join(folder, "log");
    await writeFile(logFile, `${Array.from({ length: 50 }, (_, line) => `line ${line}`).join("\n")}\n`);
    const parts = createParts(forever());
    const { part, end } = aPart({ logFile });
    parts.add(part);
    const failure = parts.failure(forever());
    end("exit code 1");
    await assert.rejects(failure, (error: Error) => {
      assert.match(error.message, /^the program ended with exit code 1; the end of its log:\n {2}line 35\n/);
      return error.message.endsWith("  line 49");
    });
  });

  it("tell of one that ended before somebody asked, also without a log", async () => {
    const parts = createParts(forever());
    const { part, end } = aPart({ logFile: path.join(folder, "none") });
    parts.add(part);
    end("SIGKILL");
    await settle();
    await assert.rejects(parts.failure(forever()), /ended with SIGKILL; its log cannot be read: .*ENOENT/);
  });

  it("do not fail when they are stopped, and are counted", async () => {
    const parts = createParts(forever());
    const [one, two] = [aPart(), aPart()];
    parts.add(one.part);
    parts.add(two.part);
    const stop = new AbortController();
    const failure = parts.failure(stop.signal);
    await parts.stop(one.part);
    await parts.stop(two.part);
    await parts.stop(two.part);
    stop.abort(new Error("nothing failed"));
    await assert.rejects(failure, /nothing failed/);
    assert.equal(parts.stopped(), 2);
  });

  it("count only those that ran until they were stopped", async () => {
    const parts = createParts(forever());
    const { part, end } = aPart();
    parts.add(part);
    end("exit code 1");
    await settle();
    await parts.stop(part);
    assert.equal(parts.stopped(), 0);
  });

  it("are killed in a hurry, those whose stop has begun and those that come later", async () => {
    const hurry = new AbortController();
    const parts = createParts(hurry.signal);
    const [stopping, running, late] = [aPart({ stubborn: true }), aPart(), aPart()];
    parts.add(stopping.part);
    parts.add(running.part);
    const stop = parts.stop(stopping.part);
    hurry.abort();
    await stop;
    parts.add(late.part);
    assert.deepEqual([stopping.calls, running.calls, late.calls], [["stop", "kill"], ["kill"], ["kill"]]);
  });
});
