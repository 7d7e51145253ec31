/*
 * What somebody may send to the loopback address of a job to get at the runner protocol of the Gitea behind it.
 */

/** A call of that protocol that needs no credential. */
export const forbidden = "/api/actions/ping.v1.PingService/Ping";

/** Spellings of its path. */
export const spellings: readonly string[] = [
  "/api/actions/ping.v1.PingService/Ping",
  "/api/actions",
  "/%61%70%69/%61%63%74%69%6f%6e%73/x",
  "/api%2factions/x",
  "/api%2Factions%2Fx",
  "/api/%2e/actions/x",
  "/api/%2e%2e/api/actions/x",
  "/x/%2e%2e/api/actions/x",
  "/x/..%2fapi/actions/x",
  "/api/x/../actions/x",
  "/./api/./actions/./x",
  "//api///actions//x",
  "/api\\actions\\x",
  "/api%5cactions/x",
  "/x%5c..%5capi%5cactions/x",
  "/API/ACTIONS/x",
  "/api/actions?x=/api/v1",
  "/api/actions#/api/v1",
  "/../api/actions/x",
  "/../../api/actions/x",
];

/** Request targets that are no paths. */
export const noPaths: readonly string[] = [
  `http://127.0.0.1${forbidden}`,
  `http://x${forbidden}`,
  `x${forbidden}`,
  `@x${forbidden}`,
  "*",
  "/api/%zz/actions",
  "/%c0%afapi/actions/x",
];

/** What follows a request's first lines so that a careless server finds the hidden request behind it. */
export function smuggled(hidden: string): readonly (readonly [string, string])[] {
  return [
    [
      "both lengths",
      `content-length: ${hidden.length}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
    ],
    [
      "both lengths, the other way",
      `transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n${hidden}`,
    ],
    ["two lengths", `content-length: 0\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`],
    ["a list of lengths", `content-length: 0, ${hidden.length}\r\n\r\n${hidden}`],
    ["a signed length", `content-length: +${hidden.length}\r\n\r\n${hidden}`],
    ["a length in hexadecimal", `content-length: 0x10\r\n\r\n${hidden}`],
    ["a negative length", `content-length: -1\r\n\r\n${hidden}`],
    ["an unknown encoding", `transfer-encoding: xchunked\r\n\r\n0\r\n\r\n${hidden}`],
    ["an encoding behind chunked", `transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n${hidden}`],
    ["chunked twice", `transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
    ["an encoding with a tab", `transfer-encoding:\tchunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n${hidden}`],
    ["a blank before the colon", `content-length : ${hidden.length}\r\n\r\n${hidden}`],
    ["a folded header", `x: y\r\n content-length: 0\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`],
    ["a line that ends with LF only", `x: y\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`],
    ["a CR in a header", `x: y\rcontent-length: 0\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`],
    ["a zero byte in a header", `x: \0\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`],
    [
      "a chunk that is longer than it says",
      `transfer-encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n${hidden}`,
    ],
    ["a chunk with an extension and LF", `transfer-encoding: chunked\r\n\r\n0;x\n\r\n${hidden}`],
    [
      "a length named as hop by hop",
      `connection: content-length\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`,
    ],
    [
      "an encoding named as hop by hop",
      `connection: transfer-encoding\r\ntransfer-encoding: chunked\r\n\r\n${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`,
    ],
    [
      "trailers that are framing",
      `transfer-encoding: chunked\r\ntrailer: content-length\r\n\r\n0\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`,
    ],
    ["a pipelined request", `content-length: 0\r\n\r\n${hidden}`],
  ];
}
