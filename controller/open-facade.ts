import type { Config } from "./config.ts";
import type { Core } from "./core.ts";
import { createFacadeHandler } from "./facade/handler.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import { persist } from "./platform/persist.ts";
import { defaultTlsLimits } from "./spiffe/tls-limits.ts";
import { createTlsServer, type TlsServer } from "./spiffe/tls-server.ts";
import { SvidUnavailableError, type SvidSource } from "./spiffe/x509-source.ts";

export type FacadeOptions = {
  readonly config: Pick<Config, "facade" | "backends">;
  readonly core: Pick<Core, "facade" | "onRefusedConnection">;
  readonly source: SvidSource;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

/**
 * Listens for executors until it is disposed of. An SVID that is not valid at this moment is waited for, loudly. Rejects
 * if it cannot listen, or with the signal's reason.
 */
export async function openFacade(
  { config: { facade, backends }, core, source, clock, random, log: parent }: FacadeOptions,
  signal: AbortSignal,
): Promise<TlsServer> {
  const log = parent.child({ component: "facade" });
  const places = backends.reduce((sum, { capacity }) => sum + capacity, 0);
  const { onRefusedConnection: onRefused } = core;
  await using stack = new AsyncDisposableStack();
  const tls = await persist(
    async () => createTlsServer({ source, clock, onRefused, limits: sessionLimits(places) }),
    { doing: "opening the facade", passing: isWithoutSvid, clock, random, log },
    signal,
  );
  // One that cannot listen must not keep the process alive.
  stack.use(tls);
  tls.server.on(
    "request",
    createFacadeHandler({
      ...core.facade,
      peerOf: (session) => tls.peerOf(session),
      endSoon: (session) => {
        tls.endSoon(session);
      },
    }),
  );
  const { host, port } = facade.listen;
  await tls.listen({ port, ...(host === undefined ? {} : { host }) });
  log.info({ port, spiffeId: facade.spiffeId }, "facade listens");
  stack.move();
  return tls;
}

function isWithoutSvid(error: unknown): boolean {
  return error instanceof SvidUnavailableError;
}

/** All executors may be of one job, and each may dial anew a few times before its old sessions are gone. */
function sessionLimits(places: number) {
  return {
    sessions: Math.max(defaultTlsLimits.sessions, 16 * places),
    sessionsPerPeer: Math.max(defaultTlsLimits.sessionsPerPeer, 4 * places),
    connections: Math.max(defaultTlsLimits.connections, 32 * places),
  };
}
