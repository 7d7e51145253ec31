import type { LocalIdentity } from "../../controller/backends/local/local-identity.ts";
import { createLocalBackend } from "../../controller/backends/local/local-backend.ts";
import { backendKinds } from "../../controller/assignment/backend-kind.ts";
import { systemRandom } from "../../controller/platform/backoff.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createLogger } from "../../controller/platform/logger.ts";

const deadlineMs = 60_000;

/** Ends the executors that a stopped controller left, which go on without it; resolves to how many there were. */
export async function endExecutors(place: {
  readonly folder: string;
  readonly identity: LocalIdentity;
  readonly owner: string;
  readonly trustDomain: string;
}): Promise<number> {
  const signal = AbortSignal.timeout(deadlineMs);
  let ended = 0;
  for (const kind of backendKinds) {
    const backend = await createLocalBackend({
      ...place,
      kind,
      // Nothing is started.
      program: { node: process.execPath, bootstrap: "" },
      giteaRunnerBinary: "",
      timeoutSeconds: 60,
      killGraceMs: 1_000,
      nodeEnv: undefined,
      clock: systemClock,
      random: systemRandom,
      log: createLogger("fatal"),
    });
    const { executors } = await backend.list(signal);
    await Promise.all(executors.map(({ name }) => backend.delete(name, signal)));
    ended += executors.length;
  }
  return ended;
}
