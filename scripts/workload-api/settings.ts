import path from "node:path";
import { parseArgs } from "node:util";
import { parseTrustDomain, type TrustDomain } from "../../controller/identity/spiffe-id.ts";

export type Settings = {
  readonly folder: string;
  readonly trustDomain: TrustDomain;
  readonly svidTtlMs: number;
  /** How far this authority's clock is ahead of everybody else's. */
  readonly clockAheadMs: number;
};

export const usage =
  "usage: node scripts/workload-api/main.ts --folder DIR --trust-domain TD [--svid-ttl SECONDS] " +
  "[--clock-ahead SECONDS]";

const defaultTtlSeconds = 3600;
const maxTtlSeconds = 86_400;
const maxAheadSeconds = 3_600;

/** Reads the command line; throws an error that says what is wrong with it, or why it must not run here. */
export function readSettings(args: readonly string[], environment: NodeJS.ProcessEnv): Settings {
  if (environment["NODE_ENV"] === "production") {
    throw new Error(
      "this Workload API is for the quick start and tests, with code that is trusted: it knows callers by a file's " +
        "owner only and keeps its CA key on disk; it does not run with NODE_ENV=production, use SPIRE",
    );
  }
  const { values } = parseArgs({
    args: [...args],
    options: {
      folder: { type: "string" },
      "trust-domain": { type: "string" },
      "svid-ttl": { type: "string", default: String(defaultTtlSeconds) },
      "clock-ahead": { type: "string", default: "0" },
    },
  });
  const { folder, "trust-domain": trustDomain, "svid-ttl": ttl } = values;
  if (folder === undefined || trustDomain === undefined) throw new Error(usage);
  const seconds = secondsIn(ttl);
  if (!(seconds >= 1 && seconds <= maxTtlSeconds))
    throw new Error(`--svid-ttl must be 1 to ${maxTtlSeconds} seconds`);
  const ahead = secondsIn(values["clock-ahead"]);
  if (!(ahead <= maxAheadSeconds)) throw new Error(`--clock-ahead must be 0 to ${maxAheadSeconds} seconds`);
  return {
    folder: path.resolve(folder),
    trustDomain: parseTrustDomain(trustDomain),
    svidTtlMs: seconds * 1000,
    clockAheadMs: ahead * 1000,
  };
}

/** NaN for what is no whole number. */
function secondsIn(text: string): number {
  return /^[0-9]{1,6}$/.test(text) ? Number(text) : Number.NaN;
}
