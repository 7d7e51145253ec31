import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";

/** Headers that speak of one connection only (RFC 9110 section 7.6.1), and one that Node has answered itself. */
const hopByHop = new Set([
  "connection",
  "expect",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Where a body ends is not for its sender to hide: a GET whose length was dropped would be followed by its body as
 * if that were a request of its own, which nobody has looked at.
 */
const framing = new Set(["content-length"]);

/** The headers of a request for the server behind; `host` is how that one is called. */
export function requestHeaders(request: IncomingMessage, host: string): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = { ...endToEnd(request), host };
  // A body of unknown length must be announced, Node does so for some methods only.
  if (request.headers["transfer-encoding"] !== undefined) headers["transfer-encoding"] = "chunked";
  return headers;
}

/** The headers of an answer, for whoever asked. */
export function responseHeaders(response: IncomingMessage): OutgoingHttpHeaders {
  return endToEnd(response);
}

/** Trailers of a message whose end has been read. */
export function trailersOf(message: IncomingMessage): OutgoingHttpHeaders {
  return flattened(Object.entries(message.trailersDistinct));
}

function endToEnd(message: IncomingMessage): OutgoingHttpHeaders {
  const named = (message.headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase());
  // Only a body in chunks has room for trailers; Node throws where they are promised without.
  const promises = message.headers["transfer-encoding"] === undefined ? ["trailer"] : [];
  const dropped = new Set([...hopByHop, ...promises, ...named.filter((name) => !framing.has(name))]);
  return flattened(Object.entries(message.headersDistinct).filter(([name]) => !dropped.has(name)));
}

/** A header that came once is a text again: Node looks at some only in that form. */
function flattened(
  headers: readonly (readonly [string, readonly string[] | undefined])[],
): OutgoingHttpHeaders {
  return Object.fromEntries(
    headers.flatMap(([name, values]) => {
      const [first, ...rest] = values ?? [];
      if (first === undefined) return [];
      return [[name, rest.length === 0 ? first : [first, ...rest]]];
    }),
  );
}
