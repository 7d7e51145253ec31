import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";

/** A layer of an image: a tar that is not compressed. */
export type Layer = {
  readonly file: string;
  /** Hexadecimal SHA-256. */
  readonly digest: string;
  readonly size: number;
};

/** Reads the whole file. */
export async function describeLayer(file: string): Promise<Layer> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return { file, digest: hash.digest("hex"), size: (await stat(file)).size };
}
