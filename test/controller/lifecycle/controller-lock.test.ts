import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import { lockFolder } from "../../../controller/lifecycle/controller-lock.ts";
import { createFakeClock, type FakeClock } from "../../fakes/fake-clock.ts";
import { createRecordingLogger, type RecordingLogger } from "../../fakes/recording-logger.ts";
import { never } from "../../support/lane-under-test.ts";

const holder = path.join(import.meta.dirname, "../../support/hold-folder-lock.ts");

describe("the lock on a state folder", () => {
  let folder: string;
  let clock: FakeClock;
  let log: RecordingLogger;
  let resources: AsyncDisposableStack;
  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    folder = await mkdtemp(path.join(tmpdir(), "lock-"));
    resources.defer(() => rm(folder, { recursive: true, force: true }));
    clock = createFakeClock();
    log = createRecordingLogger();
  });
  afterEach(() => resources.disposeAsync());

  const lock = async (where = folder, signal = never) =>
    resources.use(await lockFolder(where, clock, log, signal));

  /** A second controller that waits. */
  async function waiting(where = folder): Promise<{ readonly locked: Promise<unknown>; has(): boolean }> {
    let has = false;
    const locked = lock(where).then(() => (has = true));
    await clock.waiting();
    return { locked, has: () => has };
  }

  it("lets a second controller wait, says so once, and lets it in when the first has ended", async () => {
    const first = await lock();
    const second = await waiting();
    await clock.step(10_000);
    assert.equal(second.has(), false);
    assert.deepEqual(
      log.lines.map(({ level, message, fields }) => [level, message, fields["folder"]]),
      [["warn", "another controller leads on this folder, waiting for its end", folder]],
    );
    await first[Symbol.asyncDispose]();
    await clock.step(1_000);
    await second.locked;
  });

  it("goes with its process, also when that is killed", async () => {
    const child = spawn(process.execPath, [holder, folder], { stdio: ["ignore", "pipe", "inherit"] });
    resources.defer(() => void child.kill("SIGKILL"));
    await once(child.stdout, "data");
    const second = await waiting();
    await clock.step(5_000);
    assert.equal(second.has(), false);
    child.kill("SIGKILL");
    await once(child, "exit");
    while (!second.has()) await clock.step(1_000);
    await second.locked;
  });

  it("is one lock for one folder, by whatever name that is called", async () => {
    const other = path.join(folder, "other");
    const alias = path.join(folder, "alias");
    await mkdir(other);
    await symlink(other, alias);
    await lock();
    const held = await lock(other);
    const second = await waiting(alias);
    await clock.step(1_000);
    assert.equal(second.has(), false);
    await held[Symbol.asyncDispose]();
    await clock.step(1_000);
    await second.locked;
  });

  it("stops waiting when it is asked to", async () => {
    await lock();
    const stop = new AbortController();
    const second = lock(folder, stop.signal);
    await clock.waiting();
    const reason = new Error("shutting down");
    stop.abort(reason);
    await assert.rejects(second, reason);
  });

  it("locks a folder whose name is longer than a socket's may be", async () => {
    const long = path.join(folder, "a".repeat(120), "b".repeat(120));
    await mkdir(long, { recursive: true });
    const held = await lock(long);
    const sibling = path.join(folder, "a".repeat(120), "c".repeat(120));
    await mkdir(sibling);
    await lock(sibling);
    const second = await waiting(long);
    assert.equal(second.has(), false);
    assert.equal(log.lines.length, 1);
    await held[Symbol.asyncDispose]();
    await clock.step(1_000);
    await second.locked;
  });
});
