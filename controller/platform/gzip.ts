import { promisify } from "node:util";
import zlib from "node:zlib";

const compress = promisify<Uint8Array, Buffer>(zlib.gzip);
const expand = promisify<Uint8Array, zlib.ZlibOptions, Buffer>(zlib.gunzip);

/** The bytes as one gzip member. */
export async function gzip(bytes: Uint8Array): Promise<Uint8Array> {
  return compress(bytes);
}

/**
 * The bytes that were compressed. Rejects with an Error that says whether they are more than `maxBytes` (nothing
 * larger is ever held) or whether the input is no gzip; it quotes none of either.
 */
export async function gunzip(bytes: Uint8Array, maxBytes: number): Promise<Uint8Array> {
  try {
    return await expand(bytes, { maxOutputLength: maxBytes });
  } catch (cause) {
    const tooLarge = cause instanceof Error && "code" in cause && cause.code === "ERR_BUFFER_TOO_LARGE";
    throw new Error(tooLarge ? `it has more than ${maxBytes} bytes uncompressed` : "it is not gzip", {
      cause,
    });
  }
}
