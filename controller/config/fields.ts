import { z } from "zod";

export const text = z.string().min(1);

/**
 * A message never quotes what the variable holds: it may be a secret that belongs into a file, or a path that is
 * one by mistake.
 */
export function checked(isGood: (value: string) => unknown, mistake?: string) {
  return text.superRefine((value, context) => {
    try {
      if (isGood(value) !== false) return;
    } catch (error) {
      if (mistake === undefined) {
        context.addIssue({ code: "custom", message: error instanceof Error ? error.message : "not valid" });
        return;
      }
    }
    context.addIssue({ code: "custom", message: mistake ?? "it is not valid" });
  });
}

/** An address without what has no meaning in it, a password least of all: secrets come from files only. */
export function isBareUrl(value: string, protocols: readonly string[]): boolean {
  const { protocol, username, password, search, hash } = new URL(value);
  return protocols.includes(protocol) && [username, password, search, hash].every((part) => part === "");
}
const webAddress = "it is not an http or https address without user, password, query and fragment";
export const url = checked((value) => isBareUrl(value, ["http:", "https:"]), webAddress).transform((value) =>
  value.replace(/\/+$/, ""),
);
const natsAddress = /^(nats|tls):\/\/[^\s/@,?#]+$/;
export const natsUrl = checked(
  (value) => value.split(",").every((server) => natsAddress.test(server.trim())),
  "it is not nats://host:port or tls://host:port (several divided by commas) without user and password",
);
/** A whole number in decimal digits. */
export const integer = (least: number) =>
  checked(
    (value) => /^[0-9]{1,9}$/.test(value) && Number(value) >= least,
    `it is not a whole number of at least ${least}`,
  ).transform(Number);
export const flag = z
  .enum(["true", "false"])
  .default("false")
  .transform((value) => value === "true");
const listenAddress = /^(?<host>|[^:\s]+|\[[0-9a-fA-F:]+\]):(?<port>[0-9]{1,5})$/;
/** `host:port` or `:port`. */
export const listen = (otherwise: string) =>
  checked(
    (value) => Number(listenAddress.exec(value)?.groups?.["port"] ?? Infinity) <= 65_535,
    "it is not host:port or :port",
  )
    .default(otherwise)
    .transform((value) => {
      const { host = "", port } = listenAddress.exec(value)?.groups ?? {};
      const bare = host.replace(/^\[|\]$/g, "");
      return { host: bare === "" ? undefined : bare, port: Number(port) };
    });
export const absolutePath = text.regex(/^\//, "it is not an absolute path");
