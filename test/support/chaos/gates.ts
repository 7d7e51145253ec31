import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { eventually } from "../eventually.ts";

/** Within which an executor comes as far as its job, on a busy machine. */
const openedMs = 180_000;

/** A file that jobs wait for, or that says how far a job has come. */
export type Gate = {
  readonly file: string;
  /** Shell that opens it, if every user may write there … */
  readonly open: string;
  /** … and shell that waits until it is open. */
  readonly wait: string;
  /** Opens it from outside. */
  unlock(): Promise<void>;
  /** Waits until a job has opened it. */
  opened(): Promise<void>;
};

/** `folder` is one that every user may write to. */
export function gateIn(folder: string, name: string): Gate {
  const file = path.join(folder, name);
  return {
    file,
    open: `touch ${file}`,
    wait: `while [ ! -e ${file} ]; do sleep 0.1; done`,
    unlock: () => writeFile(file, ""),
    opened: () => eventually(`a job has opened ${name}`, () => existsSync(file), openedMs),
  };
}
