import path from "node:path";
import { z } from "zod";
import { parseSpiffeId, pathOf, type SpiffeId, SpiffeIdError } from "../../identity/spiffe-id.ts";

/**
 * The registration of one workload with the development Workload API: the ID that it gets, and the only uid
 * that may connect to its socket (null: the uid of the Workload API itself).
 */
export type WorkloadEntry = { readonly spiffeId: SpiffeId; readonly uid: number | null };

/** The longest path of a unix socket: sun_path of 108 bytes with its closing zero, see unix(7). */
export const maxSocketPathBytes = 107;

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const suffix = ".json";

const entrySchema = z.strictObject({
  spiffeId: z.string().transform((text, context) => {
    try {
      const id = parseSpiffeId(text);
      if (pathOf(id) !== "") return id;
      context.addIssue("a workload's SPIFFE ID has a path");
    } catch (error) {
      if (!(error instanceof SpiffeIdError)) throw error;
      context.addIssue(error.message);
    }
    return z.NEVER;
  }),
  uid: z
    .int()
    .min(0)
    .max(2 ** 32 - 2)
    .nullable(),
});

/** Where the entries lie. */
export function entriesFolder(folder: string): string {
  return path.join(folder, "entries");
}

/**
 * The file that registers `name`. Write it under a name that starts with a dot, in the same folder, and rename
 * it: a half-written entry is never seen. Removing the file ends the registration. Throws for a name that is
 * not 1 to 63 characters of A-Z a-z 0-9 . _ - with a letter or digit first.
 */
export function entryFile(folder: string, name: string): string {
  return path.join(entriesFolder(folder), checkedName(name) + suffix);
}

/** The name of the workload that a file in the entries folder registers; undefined for any other file. */
export function entryName(file: string): string | undefined {
  if (!file.endsWith(suffix)) return undefined;
  const name = file.slice(0, -suffix.length);
  return namePattern.test(name) ? name : undefined;
}

/** Where the folders of the sockets lie, one for each workload. */
export function socketsFolder(folder: string): string {
  return path.join(folder, "sockets");
}

/**
 * The socket on which `name` gets its identity: it appears when the entry is served and goes with it. Throws
 * for a bad name, and for a path that is too long for a socket.
 */
export function socketPath(folder: string, name: string): string {
  const socket = path.join(socketsFolder(folder), checkedName(name), "workload-api.sock");
  const bytes = Buffer.byteLength(socket);
  if (bytes > maxSocketPathBytes) {
    throw new Error(
      `the socket path ${socket} has ${bytes} bytes, ${maxSocketPathBytes} are possible: use a shorter folder`,
    );
  }
  return socket;
}

/** The text of an entry file. */
export function serialiseEntry(entry: WorkloadEntry): string {
  return `${JSON.stringify({ spiffeId: entry.spiffeId, uid: entry.uid })}\n`;
}

/** Reads the text of an entry file; throws an error that says on one line what is wrong with it. */
export function parseEntry(text: string): WorkloadEntry {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error("it is not JSON", { cause: error });
  }
  const result = entrySchema.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues.map(({ path: at, message }) => [...at, message].join(": "));
  throw new Error(issues.join("; "));
}

function checkedName(name: string): string {
  if (namePattern.test(name)) return name;
  throw new Error(
    `${JSON.stringify(name.slice(0, 100))} is no name of a workload entry: 1 to 63 characters of ` +
      "A-Z a-z 0-9 . _ - are, a letter or digit first",
  );
}
