import { createLocalBackend } from "../../../../controller/backends/local/local-backend.ts";
import { systemClock } from "../../../../controller/platform/clock.ts";
import { createLogger } from "../../../../controller/platform/logger.ts";
import { anExecutorRequest } from "../../../support/backend-contract.ts";

/**
 * A controller in a process of its own, to be killed: `node controller-program.ts <options as JSON>` creates an
 * executor, says its name on stdout and looks after it until it dies.
 */
const given = JSON.parse(process.argv[2] ?? "{}") as Pick<
  Parameters<typeof createLocalBackend>[0],
  "kind" | "owner" | "trustDomain" | "folder" | "identity" | "program" | "ownUids"
>;
const backend = await createLocalBackend({
  ...given,
  giteaRunnerBinary: "/usr/bin/true",
  timeoutSeconds: 3600,
  nodeEnv: undefined,
  clock: systemClock,
  random: Math.random,
  log: createLogger("fatal"),
});
const { signal } = new AbortController();
const { name } = await backend.create(anExecutorRequest(given.kind), signal);
process.stdout.write(`${name}\n`);
await backend.run(signal);
