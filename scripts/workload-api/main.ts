import { systemClock } from "../../controller/platform/clock.ts";
import { describeError } from "../../controller/platform/errors.ts";
import { createLogger } from "../../controller/platform/logger.ts";
import { openAuthority } from "./authority.ts";
import { serveEntries } from "./serve-entries.ts";
import { readSettings } from "./settings.ts";

// A SPIFFE Workload API for the quick start and tests. It ends with 0 on SIGTERM and SIGINT; when it is ready it
// says so in one line on stdout.

const log = createLogger("info").child({ component: "workload-api" });
const stop = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => stop.abort());

try {
  const { folder, trustDomain, svidTtlMs, clockAheadMs } = readSettings(process.argv.slice(2), process.env);
  const clock = { ...systemClock, now: () => systemClock.now() + clockAheadMs };
  const authority = await openAuthority(folder, trustDomain, clock.now());
  const onReady = () => console.log(JSON.stringify({ ready: true }));
  await serveEntries({ folder, authority, svidTtlMs, clock, log, onReady }, stop.signal);
} catch (error) {
  log.error({ error: describeError(error) }, "workload api stopped");
  process.exitCode = 1;
}
