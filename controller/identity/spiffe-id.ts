/**
 * A SPIFFE ID that has been parsed: `spiffe://<trust domain>/<path>`, or without a path the ID of the trust
 * domain itself. There is one spelling for each ID, so `===` compares and a Map may be keyed by it.
 */
export type SpiffeId = string & { readonly brand: "SpiffeId" };

/** A trust domain name that has been parsed, `example.org`, without the scheme. */
export type TrustDomain = string & { readonly brand: "TrustDomain" };

export type SpiffeIdFault =
  "scheme" | "trust-domain" | "trailing-slash" | "empty-segment" | "dot-segment" | "segment" | "length";

/** The text is no SPIFFE ID or trust domain; trying again does not help. `fault` says which rule it breaks. */
export class SpiffeIdError extends Error {
  override readonly name = "SpiffeIdError";
  readonly fault: SpiffeIdFault;

  constructor(what: "SPIFFE ID" | "trust domain", text: string, fault: SpiffeIdFault) {
    const shown = text.length > 200 ? `${text.slice(0, 200)}…` : text;
    super(`${JSON.stringify(shown)} is not a ${what}: ${sentences[fault]}`);
    this.fault = fault;
  }
}

const sentences: Readonly<Record<SpiffeIdFault, string>> = {
  scheme: "it does not start with spiffe://",
  "trust-domain": "the trust domain must be 1 to 255 characters of a-z 0-9 . - _",
  "trailing-slash": "the path must not end in /",
  "empty-segment": "the path has an empty segment",
  "dot-segment": "the path has a segment . or ..",
  segment: "path segments must be of A-Z a-z 0-9 . - _",
  length: "it is longer than 2048 characters",
};

const scheme = "spiffe://";
const maxIdLength = 2048;
const maxTrustDomainLength = 255;
const trustDomainCharacters = new Set("abcdefghijklmnopqrstuvwxyz0123456789.-_");
const segmentCharacters = new Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_");

/**
 * Parses a SPIFFE ID by the rules of the SPIFFE-ID specification, section 2, and throws a SpiffeIdError.
 * Nothing is normalised: upper case in scheme or trust domain, percent-escapes and dot segments are refused,
 * because a parser of URLs would turn two different texts into one identity.
 */
export function parseSpiffeId(text: string): SpiffeId {
  assertSpiffeId(text);
  return text;
}

/** Parses the bare name of a trust domain and throws a SpiffeIdError. */
export function parseTrustDomain(text: string): TrustDomain {
  assertTrustDomain(text);
  return text;
}

/** The ID with these path segments in this trust domain; throws a SpiffeIdError for a segment that is none. */
export function joinSpiffeId(trustDomain: TrustDomain, ...segments: readonly string[]): SpiffeId {
  for (const segment of segments) {
    const fault = segmentFault(segment);
    if (fault !== undefined)
      throw new SpiffeIdError("SPIFFE ID", [trustDomain, ...segments].join("/"), fault);
  }
  return parseSpiffeId(scheme + [trustDomain, ...segments].join("/"));
}

/** The trust domain that an ID belongs to. */
export function trustDomainOf(id: SpiffeId): TrustDomain {
  return parseTrustDomain(split(id).trustDomain);
}

/** The path of an ID with its leading slash; empty for the ID of a trust domain. */
export function pathOf(id: SpiffeId): string {
  return split(id).path;
}

function assertSpiffeId(text: string): asserts text is SpiffeId {
  const fault = spiffeIdFault(text);
  if (fault !== undefined) throw new SpiffeIdError("SPIFFE ID", text, fault);
}

function assertTrustDomain(text: string): asserts text is TrustDomain {
  if (!isTrustDomain(text)) throw new SpiffeIdError("trust domain", text, "trust-domain");
}

function spiffeIdFault(text: string): SpiffeIdFault | undefined {
  if (!text.startsWith(scheme)) return "scheme";
  if (text.length > maxIdLength) return "length";
  const { trustDomain, path } = split(text);
  if (!isTrustDomain(trustDomain)) return "trust-domain";
  if (path === "") return undefined;
  if (path.endsWith("/")) return "trailing-slash";
  for (const segment of path.slice(1).split("/")) {
    const fault = segmentFault(segment);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function segmentFault(segment: string): SpiffeIdFault | undefined {
  if (segment === "") return "empty-segment";
  if (segment === "." || segment === "..") return "dot-segment";
  return consistsOf(segment, segmentCharacters) ? undefined : "segment";
}

function isTrustDomain(text: string): boolean {
  return text !== "" && text.length <= maxTrustDomainLength && consistsOf(text, trustDomainCharacters);
}

function split(id: string): { readonly trustDomain: string; readonly path: string } {
  const rest = id.slice(scheme.length);
  const slash = rest.indexOf("/");
  return slash === -1
    ? { trustDomain: rest, path: "" }
    : { trustDomain: rest.slice(0, slash), path: rest.slice(slash) };
}

function consistsOf(text: string, alphabet: ReadonlySet<string>): boolean {
  for (const character of text) if (!alphabet.has(character)) return false;
  return true;
}
