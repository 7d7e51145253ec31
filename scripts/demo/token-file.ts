import { open } from "node:fs/promises";
import { describeError } from "../../controller/platform/errors.ts";
import { UserError } from "./user-error.ts";

export type TokenFile = {
  readonly token: string;
  /** What is wrong with the file though it works. */
  readonly warning: string | undefined;
};

/** Reads an access token. No error tells what is in the file. */
export async function readTokenFile(file: string): Promise<TokenFile> {
  const { text, mode } = await read(file);
  const token = text.trim();
  if (token === "") throw new UserError(`--token-file ${file} is empty`);
  // Anything else does not fit into a header, and the error about that would quote it.
  if (!/^[\x21-\x7e]{1,4096}$/.test(token))
    throw new UserError(`--token-file ${file} holds something else than one token`);
  const others = (mode & 0o004) !== 0;
  return { token, warning: others ? `every user of this machine can read ${file}: chmod 600 it` : undefined };
}

async function read(file: string): Promise<{ readonly text: string; readonly mode: number }> {
  try {
    await using handle = await open(file);
    return { text: await handle.readFile("utf8"), mode: (await handle.stat()).mode };
  } catch (error) {
    throw new UserError(`--token-file ${file} cannot be read: ${describeError(error)}`, { cause: error });
  }
}
