import type { FacadeCalls } from "./facade-calls.ts";
import type { Times } from "./times.ts";

/** What the facade says of the Gitea behind it. */
export type ServerCapabilities = string | undefined;

/** The header by which Gitea tells its capabilities in the answer to `Declare`; the runner hands it to the job. */
export const capabilitiesHeader = "x-gitea-actions-capabilities";

/**
 * Probes until the facade answers. The probe is `Declare`: the facade answers it itself, for nobody but the
 * attempt's own executor. Rejects with RefusedError or the reason of the signal.
 */
export async function waitForFacade(
  calls: FacadeCalls,
  times: Times,
  signal: AbortSignal,
): Promise<ServerCapabilities> {
  let capabilities: ServerCapabilities;
  await calls.untilAnswered(
    "Declare",
    (client, options) =>
      client.declare(
        {},
        { ...options, onHeader: (headers) => (capabilities = headers.get(capabilitiesHeader) ?? undefined) },
      ),
    { deadline: times.probe, every: times.probeEvery },
    signal,
  );
  return capabilities;
}
