import { isIPv6 } from "node:net";
import { z } from "zod";

/** A name or an address with nothing in it that a shell, a URL or a manifest would take for something else. */
export const word = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9@._/-]{0,252}$/, "it has other characters than a name");

/** One line that only programs read, as the name of a context of the KUBECONFIG: EKS makes them of ARNs. */
export const line = z.string().regex(/^[^\p{Cc}]+$/u, "it is not one line of text");

/** Of an object of Kubernetes. */
export const objectName = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "it is no name of lower-case letters, digits and -");

/** An address without what has no place in it, a password least of all: it would stand in clear wherever the address does. */
function isBareUrl(text: string): boolean {
  if (!/^[a-z]+:\/\/[^\s/@?#]+(\/[^\s@?#]*)?$/.test(text)) return false;
  return URL.canParse(text);
}

export const httpUrl = z
  .string()
  .refine(
    (text) => /^https?:/.test(text) && isBareUrl(text),
    "it is no http or https URL, without user, password, query and fragment",
  );

/** Of one server, or of several of a cluster. */
export const natsUrl = z
  .string()
  .refine(
    (text) => text.split(",").every((one) => /^(nats|tls):\/\/[^/,]+$/.test(one) && isBareUrl(one)),
    "it is no URL, as in nats://nats.nats.svc:4222 (several divided by commas), without user and password",
  );

/** https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md#21-trust-domain */
export const trustDomain = z
  .string()
  .regex(
    /^(?!.*\.\.)[a-z0-9]([a-z0-9._-]{0,253}[a-z0-9])?$/,
    "it is no trust domain, as in example.org: no scheme, no path, lower case",
  );

/** A part of a SPIFFE ID's path. */
export const pathSegment = z
  .string()
  .regex(/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,252}$/, "it is no part of a SPIFFE ID");

/** A SPIFFE ID, which `{cluster}` and `{nodeUid}` may stand in. */
export const agentId = z
  .string()
  .max(2048)
  .refine(
    (text) =>
      /^spiffe:\/\/[a-z0-9._-]+(\/(?!\.\.?(\/|$))[A-Za-z0-9._-]+)+$/.test(
        text.replaceAll("{cluster}", "cluster").replaceAll("{nodeUid}", "node"),
      ),
    "it is no SPIFFE ID, in which {cluster} and {nodeUid} may stand",
  );

/** Of a class of spire-controller-manager, which is a label's value as well. */
export const className = z
  .string()
  .regex(
    /^(?!.*(\.\.|\.-|-\.))[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$/,
    "it is no name of lower-case letters, digits, - and .",
  );

export const hostAndPort = z.string().refine((text) => {
  const { six, port } =
    /^(\[(?<six>[0-9A-Fa-f:.]+)\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?):(?<port>[0-9]{1,5})$/.exec(text)
      ?.groups ?? {};
  return isPort(port) && (six === undefined || isIPv6(six));
}, "it is no host with a port, as in spire-server.spire-mgmt.svc:443");

function isPort(digits: string | undefined): boolean {
  return digits !== undefined && Number(digits) >= 1 && Number(digits) <= 65_535;
}

export const registry = z.string().refine((text) => {
  const { port } = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:(?<port>[0-9]{1,5}))?$/.exec(text)?.groups ?? {
    port: "0",
  };
  return port === undefined || isPort(port);
}, "it is no host of a registry, as in registry.example.org:5000");

const path = String.raw`[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*`;

/** https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests */
export const repository = z
  .string()
  .regex(new RegExp(`^${path}$`), "it is no repository, without host, tag and digest");

/** As a cluster pulls it, with a tag or a digest. */
export const image = z
  .string()
  .regex(
    new RegExp(
      String.raw`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?\/)?${path}` +
        String.raw`(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?@sha256:[0-9a-f]{64})$`,
    ),
    "it is no image with a tag or a digest, as in registry.example.org/task-executor:v1",
  );

/** What signs a server's certificate, as PEM. */
export const certificates = z
  .string()
  .regex(
    /^\s*(-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\s*)+$/,
    "it is no certificate in PEM",
  );

/** Of executors at once. */
export const capacity = z
  .int("it is no whole number")
  .min(1, "it has to be 1 or more")
  .max(100_000, "it has to be 100000 or less");

const week = 7 * 24 * 60 * 60;

/** Of an executor. */
export const timeout = z
  .int("it is no whole number of seconds")
  .min(60, "it has to be 60 or more")
  .max(week, `it has to be a week (${week}) or less`)
  .default(14_400);
