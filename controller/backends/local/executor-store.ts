import { readdir, readFile, rmdir, stat } from "node:fs/promises";
import path from "node:path";
import { describeError } from "../../platform/errors.ts";
import { BackendError } from "../backend.ts";
import { isMissing } from "./error-code.ts";
import { type ExecutorFile, parseExecutorFile, serialiseExecutorFile } from "./executor-file.ts";
import { removeTree, writeFileAtomically } from "./files.ts";

export type StoredExecutor =
  | { readonly kind: "absent" }
  | { readonly kind: "unreadable"; readonly reason: string }
  | { readonly kind: "stored"; readonly file: ExecutorFile };

/** Where an executor's things lie. All but `home` and `log` is the controller's, and only read by the executor. */
export type ExecutorPaths = {
  readonly folder: string;
  readonly home: string;
  readonly log: string;
  readonly runnerConfig: string;
};

/** The executors' folders and what is written down about each. Throws a terminal BackendError for what is no name. */
export type ExecutorStore = {
  names(): Promise<readonly string[]>;
  read(name: string): Promise<StoredExecutor>;
  /** When its folder last got an entry: soon after it was made. Milliseconds since the epoch; undefined if it is gone. */
  madeAt(name: string): Promise<number | undefined>;
  write(name: string, file: ExecutorFile): Promise<void>;
  /** Removes it with all of its files; one that is gone is no error. */
  remove(name: string): Promise<void>;
  paths(name: string): ExecutorPaths;
};

const fileName = "executor.json";

export function createExecutorStore(folder: string): ExecutorStore {
  const folderOf = (name: string) => {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name))
      throw new BackendError("terminal", `${JSON.stringify(name.slice(0, 100))} is no name of an executor`);
    return path.join(folder, name);
  };
  return {
    names: async () => {
      const entries = await readdir(folder, { withFileTypes: true });
      return entries
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => name)
        .toSorted();
    },
    read: async (name) => {
      let text: string;
      try {
        text = await readFile(path.join(folderOf(name), fileName), "utf8");
      } catch (error) {
        // Without the file it was never started, or its removal was nearly done.
        if (isMissing(error)) return { kind: "absent" };
        throw error;
      }
      try {
        return { kind: "stored", file: parseExecutorFile(text) };
      } catch (error) {
        return { kind: "unreadable", reason: describeError(error) };
      }
    },
    madeAt: async (name) => {
      try {
        return (await stat(path.join(folder, name))).mtimeMs;
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
    write: (name, file) =>
      writeFileAtomically(path.join(folderOf(name), fileName), serialiseExecutorFile(file), 0o600),
    // The file goes last: as long as something is left, the executor is still listed.
    remove: async (name) => {
      const own = folderOf(name);
      try {
        for (const child of await readdir(own))
          if (child !== fileName) await removeTree(path.join(own, child));
        await removeTree(path.join(own, fileName));
        await rmdir(own);
      } catch (error) {
        if (!isMissing(error)) throw error;
      }
    },
    paths: (name) => {
      const own = folderOf(name);
      return {
        folder: own,
        home: path.join(own, "home"),
        log: path.join(own, "log"),
        runnerConfig: path.join(own, "gitea-runner.yaml"),
      };
    },
  };
}
