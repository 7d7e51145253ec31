import { randomUUID } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before } from "mocha";
import { runCommand } from "../../scripts/peers/run-command.ts";

const source = path.join(import.meta.dirname, "slow-clock.c");
const compileMs = 60_000;

/**
 * The variables with which a program sees a clock that is so many seconds behind, also where it verifies certificates.
 * What makes it see that is compiled by a hook of the surrounding `describe`, with the C compiler that SPIRE needs as
 * well. Go programs do not ask the C library what time it is, so one that inherits the variables is not changed.
 */
export function useSlowClock(behindSeconds: number): Readonly<Record<string, string>> {
  const folder = path.join(tmpdir(), `slow-clock-${randomUUID()}`);
  const library = path.join(folder, "slow-clock.so");
  before("compile the slow clock", async () => {
    await mkdir(folder);
    const args = ["-shared", "-fPIC", "-O2", "-o", library, source];
    const command = { program: "cc", args, environment: process.env, deadline: compileMs };
    await runCommand(command, AbortSignal.timeout(compileMs));
  });
  after(() => rm(folder, { recursive: true, force: true }));
  return { LD_PRELOAD: library, CLOCK_OFFSET_SECONDS: String(-behindSeconds) };
}
