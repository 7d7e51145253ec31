import type { SecureServerOptions } from "node:http2";
import type { CallDeadlines } from "./call-deadlines.ts";

/** What a server of ours spends on one peer, and on all of them. */
export type TlsLimits = CallDeadlines & {
  readonly handshakeMs: number;
  /** Connections that shake hands at once, of one address: they are nobody yet. */
  readonly handshakesPerAddress: number;
  readonly connections: number;
  readonly sessions: number;
  /** Of one SPIFFE ID; all jobs of a matrix have the same. */
  readonly sessionsPerPeer: number;
  /** Until a session has to be dialled again, whatever its certificate says. */
  readonly sessionAgeMs: number;
  readonly idleMs: number;
  /** How long running calls may go on after a session's end. */
  readonly closeGraceMs: number;
};

export const defaultTlsLimits: TlsLimits = {
  handshakeMs: 10_000,
  handshakesPerAddress: 128,
  connections: 2_048,
  sessions: 1_024,
  sessionsPerPeer: 64,
  sessionAgeMs: 3_600_000,
  idleMs: 120_000,
  closeGraceMs: 5_000,
  bodyMs: 30_000,
  callMs: 120_000,
};

/**
 * What node:http2 limits by itself. A bootstrap has a handful of calls under way and resets one when its own
 * deadline has passed; floods of pings and settings end a session in nghttp2, with its own limit of 1,000 answers
 * that nobody takes.
 */
export const http2Limits = {
  settings: { maxConcurrentStreams: 32, maxHeaderListSize: 16 * 1024, enablePush: false },
  maxHeaderListPairs: 64,
  maxSettings: 16,
  maxSessionRejectedStreams: 64,
  maxSessionInvalidFrames: 64,
  streamResetBurst: 128,
  streamResetRate: 16,
  unknownProtocolTimeout: 1_000,
} satisfies SecureServerOptions;
