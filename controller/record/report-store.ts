import { ReportTooLargeError } from "../assignment/errors.ts";
import type { StoredReport, TaskResult } from "../assignment/record.ts";
import type { KeyRing } from "../identity/key-ring.ts";
import type { KeyValue } from "../platform/key-value.ts";
import { fromBucket, ReportKeyMissingError } from "./errors.ts";
import { openPart, sealPart } from "./report-part.ts";

/**
 * The last reports of executors, encrypted and in parts, in the bucket of the records, until Gitea has accepted them.
 * Each call makes one try and rejects with RecordStoreUnavailableError for whatever may pass, or with the signal's
 * reason. Reports are also kept in memory, so that a lost bucket loses none of this controller's own.
 */
export type ReportStore = {
  /**
   * Stores a report; the record names it afterwards. The same again goes on where the last try failed. Rejects with
   * ReportTooLargeError as well.
   */
  put(
    assignmentId: string,
    result: TaskResult,
    bytes: Uint8Array,
    signal: AbortSignal,
  ): Promise<StoredReport>;
  /**
   * Undefined if it is lost or was changed, so that nobody will ever read it. Rejects with ReportKeyMissingError
   * while the key is missing that it is sealed with.
   */
  get(assignmentId: string, report: StoredReport, signal: AbortSignal): Promise<Uint8Array | undefined>;
  /** Removes all reports of an assignment, named or not. To be done when the record names none any more. */
  remove(assignmentId: string, signal: AbortSignal): Promise<void>;
  /**
   * Removes reports that no record names: a controller was ended between the two writes, or before the removal. To
   * be done before any executor is served. Resolves to how many there were.
   */
  sweep(named: (assignmentId: string, key: string) => boolean, signal: AbortSignal): Promise<number>;
};

export type ReportStoreOptions = {
  /** The bucket of the records. */
  readonly bucket: Pick<KeyValue, "read" | "keys" | "write" | "purge">;
  readonly keyRing: KeyRing;
  /** Unpredictable bytes. */
  readonly randomBytes: (size: number) => Uint8Array;
  /** As much of a report as goes into one value, see `reportPartBytes`. */
  readonly partBytes: number;
  /** Larger reports are refused. As much as the facade reads of a call unless given. */
  readonly maxBytes?: number;
};

const defaultMaxBytes = 64 * 1024 * 1024;
/** Little enough for one answer's deadline on a slow network. */
const mostPartBytes = 512 * 1024;
/** What stands beside a part's own bytes: line, tag, subject and headers. */
const overheadBytes = 2 * 1024;

/** How much of a report fits into a value, for a server that takes messages of so many bytes, if it says so. */
export function reportPartBytes(maxPayload = Infinity): number {
  return Math.max(1, Math.min(mostPartBytes, maxPayload - overheadBytes));
}

type Kept = {
  readonly report: StoredReport;
  readonly bytes: Uint8Array;
  /** The parts that the server has confirmed. */
  readonly stored: Set<number>;
};

export function createReportStore(options: ReportStoreOptions): ReportStore {
  const { bucket, keyRing, randomBytes, partBytes, maxBytes = defaultMaxBytes } = options;
  const kept = new Map<string, Kept>();

  const keep = (id: string, result: TaskResult, bytes: Uint8Array): Kept => {
    const known = kept.get(id);
    if (known?.report.result === result && sameBytes(known.bytes, bytes)) return known;
    const key = Buffer.from(randomBytes(8)).toString("hex");
    const parts = Math.max(1, Math.ceil(bytes.length / partBytes));
    const report = { result, key, parts, bytes: bytes.length };
    const fresh = { report, bytes, stored: new Set<number>() };
    kept.set(id, fresh);
    return fresh;
  };

  const putPart = async (id: string, { report, bytes, stored }: Kept, part: number, signal: AbortSignal) => {
    if (stored.has(part)) return;
    const content = bytes.subarray(part * partBytes, (part + 1) * partBytes);
    const sealed = sealPart(keyRing, { assignmentId: id, report, part }, content, randomBytes);
    // A conflict is an earlier try whose answer got lost: nobody else writes under this name.
    await bucket.write(partKey(id, report.key, part), sealed, 0, signal);
    stored.add(part);
  };

  /** Undefined if the part is lost. */
  const getPart = async (id: string, report: StoredReport, part: number, signal: AbortSignal) => {
    const entry = await bucket.read(partKey(id, report.key, part), signal);
    if (entry === undefined) return undefined;
    const opened = openPart(keyRing, { assignmentId: id, report, part }, entry.value);
    if (opened.kind === "unknown-key")
      throw new ReportKeyMissingError(`the report of ${id} is sealed with key ${opened.keyId}`);
    return opened.kind === "opened" ? opened.bytes : undefined;
  };

  const get: ReportStore["get"] = async (id, report, signal) => {
    const known = kept.get(id);
    if (known?.report.key === report.key) return known.bytes;
    const parts: Uint8Array[] = [];
    for (let part = 0; part < report.parts; part++) {
      const bytes = await getPart(id, report, part, signal);
      if (bytes === undefined) return undefined;
      parts.push(bytes);
    }
    const bytes = Buffer.concat(parts);
    return bytes.length === report.bytes ? bytes : undefined;
  };

  return {
    put: async (id, result, bytes, signal) => {
      if (bytes.length > maxBytes)
        throw new ReportTooLargeError(`it has ${bytes.length} bytes, ${maxBytes} are possible`);
      const report = keep(id, result, bytes);
      for (let part = 0; part < report.report.parts; part++)
        await inBucket(`storing the report of ${id}`, () => putPart(id, report, part, signal), signal);
      return report.report;
    },
    get: (id, report, signal) =>
      inBucket(`reading the report of ${id}`, () => get(id, report, signal), signal),
    remove: async (id, signal) => {
      await inBucket(
        `removing the reports of ${id}`,
        () => bucket.purge(`${id}.${reportWord}.>`, undefined, signal),
        signal,
      );
      kept.delete(id);
    },
    sweep: (named, signal) =>
      inBucket(
        "sweeping reports",
        async () => {
          const reports = new Set<string>();
          for (const name of await bucket.keys(`*.${reportWord}.>`, signal)) {
            const [id = "", , key = ""] = name.split(".");
            if (!named(id, key) && kept.get(id)?.report.key !== key)
              reports.add(`${id}.${reportWord}.${key}`);
          }
          for (const report of reports) await bucket.purge(`${report}.>`, undefined, signal);
          return reports.size;
        },
        signal,
      ),
  };
}

async function inBucket<T>(doing: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw fromBucket(doing, error, signal);
  }
}

/** Stands between an assignment's id and its reports: keys with a dot are no records. */
const reportWord = "report";

function partKey(id: string, key: string, part: number): string {
  return `${id}.${reportWord}.${key}.${part}`;
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}
