import type { Config } from "./config.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import { describeError } from "./platform/errors.ts";
import type { Logger } from "./platform/logger.ts";
import { parseEndpoint } from "./spiffe/endpoint.ts";
import { createWorkloadClient } from "./spiffe/workload-client.ts";
import { openX509Source, SvidUnavailableError, type X509Source } from "./spiffe/x509-source.ts";
import { parseSpiffeId } from "./identity/spiffe-id.ts";

/** After this it is told again. It is longer than clocks differ: an SVID may not be valid yet when it comes. */
const readyTimeoutMs = 60_000;

/**
 * The controller's own SVID, as the facade. Without one there is nothing to serve, so it is waited for, loudly,
 * however long that takes. Rejects with the signal's reason, or if the Workload API refuses our calls as wrong.
 */
export async function openOwnIdentity(
  config: Pick<Config, "workloadApi" | "facade">,
  { clock, random, log: parent }: { clock: Clock; random: Random; log: Logger },
  signal: AbortSignal,
): Promise<X509Source> {
  const log = parent.child({ component: "facade" });
  const client = createWorkloadClient(parseEndpoint(config.workloadApi));
  const expectedId = parseSpiffeId(config.facade.spiffeId);
  for (;;) {
    try {
      const source = await openX509Source({ client, expectedId, clock, random, log, readyTimeoutMs }, signal);
      const close = async () => {
        await source.close();
        client[Symbol.dispose]();
      };
      return { ...source, close, [Symbol.asyncDispose]: close };
    } catch (error) {
      if (signal.aborted || !(error instanceof SvidUnavailableError)) {
        client[Symbol.dispose]();
        throw error;
      }
      log.error({ error: describeError(error) }, "no identity of our own, waiting for it");
    }
  }
}
