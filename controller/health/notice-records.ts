import type { Logger } from "../platform/logger.ts";
import type { TroubleBoard } from "./troubles.ts";

export type NoticeRecordsOptions = {
  readonly board: Pick<TroubleBoard, "report">;
  /** Longer than the records stay unlisted. */
  readonly lastsMs: number;
  readonly log: Logger;
};

/**
 * To be called with each list of the records: what cannot be read stands in health until a person has removed it, and
 * its key is told in the log, once.
 */
export function createNoticeRecords({ board, lastsMs, log }: NoticeRecordsOptions) {
  const told = new Set<string>();
  const reason =
    "the state bucket holds a record that cannot be read, the log has its key: look, then remove it";
  return ({
    invalid,
    setAside,
  }: {
    readonly invalid: readonly { readonly key: string; readonly reason: string }[];
    /** The keys of those that had to make room. */
    readonly setAside: readonly string[];
  }): void => {
    const keys = new Set([...invalid.map(({ key }) => key), ...setAside]);
    // The same task's is one trouble, wherever it stands.
    for (const key of keys)
      board.report({ kind: "unreadable-record", about: key.split(".")[0] ?? key, reason, lastsMs });
    for (const one of invalid) if (!told.has(one.key)) log.error(one, "record cannot be read");
    for (const key of setAside)
      if (!told.has(key)) log.warn({ key }, "record that could not be read is kept here");
    told.clear();
    for (const key of keys) told.add(key);
  };
}
