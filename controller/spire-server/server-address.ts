import { isIPv6 } from "node:net";
import { parseEndpoint } from "../spiffe/endpoint.ts";

/** Where a SPIRE server answers: by its own socket, which lets in whoever reaches it, or over the network by SVIDs. */
export type SpireServerAddress =
  { readonly kind: "unix"; readonly path: string } | ({ readonly kind: "tcp" } & SpireServerPort);

/** A name or an IP address, and a port. */
export type SpireServerPort = { readonly host: string; readonly port: number };

/**
 * Parses `unix:///absolute/path` or `host:port`, an IPv6 address in brackets. Throws an error that says what is wrong;
 * trying again does not help.
 */
export function parseSpireServer(text: string): SpireServerAddress {
  if (!text.startsWith("unix:")) return { kind: "tcp", ...parseSpireServerPort(text) };
  const endpoint = parseEndpoint(text);
  if (endpoint.kind === "unix") return endpoint;
  throw refusal(text);
}

/** Parses `host:port`, as `parseSpireServer` does. */
export function parseSpireServerPort(text: string): SpireServerPort {
  const match =
    /^(?:\[(?<six>[0-9A-Fa-f:.]+)\]|(?<name>[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)):(?<port>[0-9]{1,5})$/.exec(
      text,
    );
  const { six, name, port: digits = "" } = match?.groups ?? {};
  const [host, port] = [six ?? name, Number(digits)];
  if (host === undefined || (six !== undefined && !isIPv6(six)) || port < 1 || port > 65_535)
    throw refusal(text);
  return { host, port };
}

/** As it is written in a configuration. */
export function formatSpireServer(address: SpireServerAddress): string {
  return address.kind === "unix" ? `unix://${address.path}` : formatSpireServerPort(address);
}

export function formatSpireServerPort({ host, port }: SpireServerPort): string {
  return `${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

function refusal(text: string): Error {
  return new Error(`${JSON.stringify(text.slice(0, 200))} is neither unix:///absolute/path nor host:port`);
}
