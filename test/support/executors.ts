import { readdir, readFile } from "node:fs/promises";
import path from "node:path";

/** A local executor, as its files show it. */
export type ExecutorSeen = {
  readonly name: string;
  readonly uid: number;
  /** What the bootstrap has logged, line by line; other output is left out. */
  readonly lines: readonly { readonly msg: string; readonly [field: string]: unknown }[];
};

/** The executors below a state folder that are there now. */
export async function seeExecutors(state: string): Promise<readonly ExecutorSeen[]> {
  const folder = path.join(state, "executors");
  const seen = await Promise.all(
    (await readdir(folder)).map(async (name) => {
      try {
        const { uid } = JSON.parse(await readFile(path.join(folder, name, "executor.json"), "utf8")) as {
          uid: number;
        };
        const log = await readFile(path.join(folder, name, "log"), "utf8");
        return [{ name, uid, lines: log.split("\n").flatMap(parse) }];
      } catch {
        // It is just being made or removed.
        return [];
      }
    }),
  );
  return seen.flat();
}

function parse(text: string): ExecutorSeen["lines"] {
  try {
    const line: unknown = JSON.parse(text);
    return typeof line === "object" && line !== null && "msg" in line
      ? [line as ExecutorSeen["lines"][number]]
      : [];
  } catch {
    return [];
  }
}
