import type { Core } from "./core.ts";
import type { EventLog } from "./events/event-log.ts";
import type { Leadership } from "./lifecycle/lead.ts";
import type { NatsLink } from "./platform/nats-connection.ts";
import type { TlsServer } from "./spiffe/tls-server.ts";
import type { SvidSource } from "./spiffe/x509-source.ts";

/** How far a controller has come: what health and metrics can ask. Each part is put in when it comes to be. */
export type Progress = {
  /** What it waits for, in words; undefined for one that leads, or waits for nothing but to lead. */
  waitsFor?: string | undefined;
  connection?: Pick<NatsLink, "connected">;
  source?: Pick<SvidSource, "current">;
  events?: Pick<EventLog, "figures">;
  /** It leads, or has led and still serves. */
  reign?: {
    readonly leadership: Pick<Leadership, "leading">;
    readonly core: Pick<Core, "alive" | "well" | "figures">;
    /** Absent until it has recovered. */
    readonly tls?: Pick<TlsServer, "sessions">;
  };
};

/** Whether it leads now. */
export function leads({ reign }: Progress): boolean {
  return reign !== undefined && !reign.leadership.leading.aborted;
}

/** Why it has no identity to serve with; undefined if it has. */
export function svidProblem({ source }: Progress): string | undefined {
  if (source === undefined) return "there was none yet";
  try {
    source.current();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : "unknown error";
  }
}
