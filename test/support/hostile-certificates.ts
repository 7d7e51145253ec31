import type { LeafOptions } from "./test-pki.ts";

/** A certificate with which somebody tries to be the victim, who is known by this ID and has shown its capability. */
export type HostileCertificate = {
  readonly what: string;
  /** Made anew for each use: it holds times. */
  readonly options: () => LeafOptions;
  /** A CA of the attacker's own, or of a trust domain that others trust; the facade's own unless given. */
  readonly issuer?: "stranger" | "federated";
};

/** Everything that a certificate can say to be taken for the victim, or for more than it is. */
export function hostileCertificates(ids: {
  readonly victim: string;
  /** What the attacker is called by right. */
  readonly own: string;
  readonly facade: string;
}): readonly HostileCertificate[] {
  const { victim, own, facade } = ids;
  const [, trustDomain = "", path = ""] = /^spiffe:\/\/([^/]*)(\/.*)$/.exec(victim) ?? [];
  const named = (what: string, ...uris: readonly string[]) => ({ what, options: () => ({ uris }) });
  const like = (what: string, options: LeafOptions) => ({ what, options: () => options });
  const now = () => Date.now();
  return [
    { ...like("the victim's ID from a CA of its own", {}), issuer: "stranger" },
    { ...like("the victim's ID from the CA of a federated trust domain", {}), issuer: "federated" },
    named("the same path in another trust domain", `spiffe://other.example${path}`),
    like("a CA certificate", { ca: true, keyUsage: ["digitalSignature", "keyCertSign"] }),
    like("a CA certificate that hides it", { ca: true }),
    named("the victim's ID beside its own", own, victim),
    named("its own ID behind the victim's", victim, own),
    named("its own ID with the victim's behind a comma", `${own}, URI:${victim}`),
    like("the victim's ID in a DNS name", { uris: [], dnsNames: [victim] }),
    like("a DNS name that prints like the victim's ID", { uris: [], dnsNames: [`URI:${victim}`] }),
    like("a DNS name with the victim's ID behind a comma", { uris: [], dnsNames: [`x, URI:${victim}`] }),
    named("the victim's ID in quotes", `"${victim}"`),
    named("the victim's ID with a zero byte and more", `${victim}\0x`),
    named("the victim's ID in capitals", victim.toUpperCase()),
    named("the victim's ID with an escape", victim.replace(/\/(.)([^/]*)$/, escaped)),
    named("a way round to the victim's ID", victim.replace(/\/([^/]*)$/, "/x/../$1")),
    named("the victim's ID with a slash at its end", `${victim}/`),
    named("the victim's ID with a query", `${victim}?x`),
    named("a longer ID", `${victim}2`),
    named("an ID below the victim's", `${victim}/x`),
    named("the ID of a fork of the victim's", victim.replace("/ci/", "/ci-fork/")),
    named("the ID of the trust domain", `spiffe://${trustDomain}`),
    named("the facade's own ID", facade),
    like("a certificate for servers only", { extendedKeyUsage: ["serverAuth"] }),
    {
      what: "an SVID that has expired",
      options: () => ({ notBefore: now() - 60_000, notAfter: now() - 2_000 }),
    },
    { what: "an SVID that is not valid yet", options: () => ({ notBefore: now() + 30_000 }) },
  ];
}

/** Its first character as a URL may write it: another text, the same for whoever decodes it. */
function escaped(_: string, first: string, rest: string): string {
  return `/%${first.charCodeAt(0).toString(16)}${rest}`;
}
