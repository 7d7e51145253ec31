import { isIP } from "node:net";

/** Where the Workload API listens. */
export type Endpoint =
  | { readonly kind: "unix"; readonly path: string }
  | { readonly kind: "tcp"; readonly host: string; readonly port: number };

/** The longest path of a unix socket: sun_path of 108 bytes with its closing zero, see unix(7). */
const maxSocketPathBytes = 107;

/**
 * Parses `SPIFFE_ENDPOINT_SOCKET`: `unix:///absolute/path` or `tcp://IP:port` (SPIFFE Workload Endpoint,
 * section 4). Throws an error that says what is wrong with the text; trying again does not help.
 */
export function parseEndpoint(text: string): Endpoint {
  if (text.startsWith("unix:")) return unixEndpoint(text);
  if (text.startsWith("tcp://")) return tcpEndpoint(text);
  throw refusal(text, "it must start with unix:// or tcp://");
}

/** The endpoint as SPIFFE_ENDPOINT_SOCKET spells it. */
export function formatEndpoint(endpoint: Endpoint): string {
  if (endpoint.kind === "unix") return `unix://${endpoint.path}`;
  const host = endpoint.host.includes(":") ? `[${endpoint.host}]` : endpoint.host;
  return `tcp://${host}:${endpoint.port}`;
}

function unixEndpoint(text: string): Endpoint {
  const rest = text.slice("unix:".length);
  const path = rest.startsWith("//") ? rest.slice(2) : rest;
  if (!path.startsWith("/"))
    throw refusal(text, "the path must be absolute, as in unix:///run/spire/api.sock");
  if (/[%?#\0]/.test(path)) throw refusal(text, "the path must not hold % ? # or a zero byte");
  if (path.endsWith("/")) throw refusal(text, "the path must name a socket, not a folder");
  const bytes = Buffer.byteLength(path);
  if (bytes > maxSocketPathBytes) {
    throw refusal(text, `the path has ${bytes} bytes, a socket's may have ${maxSocketPathBytes}`);
  }
  return { kind: "unix", path };
}

function tcpEndpoint(text: string): Endpoint {
  const match = /^tcp:\/\/(?:\[(?<six>[0-9A-Fa-f:.]+)\]|(?<four>[^:/?#@[\]]+)):(?<port>[0-9]{1,5})$/.exec(
    text,
  );
  if (match?.groups === undefined) throw refusal(text, "it must be tcp://IP:port and no more");
  const { six, four, port: digits } = match.groups;
  const host = six ?? four ?? "";
  if (isIP(host) !== (six === undefined ? 4 : 6)) throw refusal(text, "the host must be an IP address");
  const port = Number(digits);
  if (port < 1 || port > 65_535) throw refusal(text, "the port must be 1 to 65535");
  return { kind: "tcp", host, port };
}

function refusal(text: string, why: string): Error {
  return new Error(`${JSON.stringify(text.slice(0, 200))} is no Workload API endpoint: ${why}`);
}
