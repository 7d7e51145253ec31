import { z } from "zod";

/** A name or an address with nothing in it that a shell, a URL or a manifest would take for something else. */
export const word = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9@._/-]{0,252}$/, "it has other characters than a name");

/** Of an object of Kubernetes. */
export const objectName = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "it is no name of lower-case letters, digits and -");

export const httpUrl = z.url({ protocol: /^https?$/, error: "it is no http or https URL" });

export const natsUrl = z.url({
  protocol: /^(nats|tls)$/,
  error: "it is no URL, as in nats://nats.nats.svc:4222",
});

/** https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md#21-trust-domain */
export const trustDomain = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._-]{0,254}$/,
    "it is no trust domain, as in example.org: no scheme, no path, lower case",
  );

export const hostAndPort = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9.-]*:[0-9]{1,5}$/,
    "it is no host with a port, as in spire-server.spire-mgmt.svc:443",
  );

export const registry = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?$/,
    "it is no host of a registry, as in registry.example.org:5000",
  );

/** https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests */
export const repository = z
  .string()
  .regex(
    /^[a-z0-9]+([._-][a-z0-9]+)*(\/[a-z0-9]+([._-][a-z0-9]+)*)*$/,
    "it is no repository, without host, tag and digest",
  );

/** One or more of them. */
export const certificate = z
  .string()
  .startsWith("-----BEGIN CERTIFICATE-----", "it is no certificate in PEM");

/** As a cluster pulls it, with a tag or a digest. */
export const image = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._:/-]*[a-z0-9](:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})$/,
    "it is no image with a tag or a digest, as in registry.example.org/task-executor:v1",
  );

/** Of a VM, besides what we say: a used VM that starts anew would be given to another job. */
export const podSpec = z
  .record(z.string(), z.unknown())
  .refine((spec) => !("restartPolicy" in spec), "restartPolicy has to be Never")
  .default({});

export const labels = z.record(z.string().min(1), z.string()).default({});

/** Of `key`, `operator`, `value` and `effect`, as Kubernetes has them. */
export const tolerations = z
  .array(z.partialRecord(z.enum(["key", "operator", "value", "effect"]), z.string()))
  .default([]);

const quantities = z.record(z.string().min(1), z.string().min(1));

export const resources = z
  .strictObject({ requests: quantities.optional(), limits: quantities.optional() })
  .default({})
  .transform(({ requests, limits }) => ({
    ...(requests === undefined ? {} : { requests }),
    ...(limits === undefined ? {} : { limits }),
  }));

/** Of executors at once. */
export const capacity = z.int("it is no whole number").min(1, "it has to be 1 or more");

export const timeout = z.int().min(60).default(14_400);
