import { X509Certificate } from "node:crypto";
import { formatEndpoint, parseEndpoint } from "../spiffe/endpoint.ts";
import {
  parseSpireServer,
  parseSpireServerPort,
  type SpireServerAddress,
  type SpireServerPort,
} from "../spire-server/server-address.ts";
import type { StaticEntrySettings } from "../static-entries/static-entry.ts";
import { checked } from "./fields.ts";
import type { Variables } from "./variables.ts";

/** How VMs come to their identities. */
export type VmIdentityConfig = {
  /** As seen in a VM. */
  readonly socket: string;
  readonly uid: number;
} & (
  | { readonly kind: "template" }
  | {
      readonly kind: "guest-agent";
      readonly server: SpireServerAddress;
      /** The same server, as VMs dial it. */
      readonly guestServer: SpireServerPort;
      readonly entries: StaticEntrySettings;
    }
);

/** Throws what is wrong with what signs a server's certificate: certificates as PEM, one at least. */
export function checkAuthorities(pem: string): void {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) throw new Error("the file that it names holds no certificate (PEM)");
  try {
    for (const block of blocks) void new X509Certificate(block);
  } catch (cause) {
    throw new Error("in the file that it names is a certificate that cannot be read", { cause });
  }
}

export const vmIdentities = ["template", "guest-agent"] as const;

/** A guest's agent has a unix socket, or it could not tell who calls. */
export const guestSocket = checked(
  (value) => parseEndpoint(value).kind === "unix",
  "it is not unix:///absolute/path",
).transform((value) => formatEndpoint(parseEndpoint(value)));

export const spireServer = checked(
  parseSpireServer,
  "it is neither unix:///absolute/path nor host:port",
).transform((value) => parseSpireServer(value));

export const spireServerPort = checked(parseSpireServerPort, "it is not host:port").transform((value) =>
  parseSpireServerPort(value),
);

/** Undefined where no VMs are made; all that is needed is known to be there. */
export function vmIdentityConfig(variables: Variables): VmIdentityConfig | undefined {
  if (!variables.COMPONENTS.includes("vm-worker") || variables.VM_BACKEND === "local") return undefined;
  const common = { socket: variables.VM_SPIFFE_SOCKET, uid: variables.VM_EXECUTOR_UID };
  if (variables.VM_IDENTITY === "template") return { kind: "template", ...common };
  const { SPIRE_SERVER_API: server, SPIRE_CLASS: className } = variables;
  const guestServer = variables.VM_SPIRE_SERVER ?? (server?.kind === "tcp" ? portOf(server) : undefined);
  if (server === undefined || guestServer === undefined) return undefined;
  const entries = { className, svidTtlSeconds: variables.SPIRE_SVID_TTL_SECONDS };
  return { kind: "guest-agent", ...common, server, guestServer, entries };
}

function portOf({ host, port }: SpireServerPort): SpireServerPort {
  return { host, port };
}

/** What agents of VMs need: a guest reaches no socket of ours, so that it has to be told another way to the server. */
export function neededForGuestAgents(server: string | undefined): readonly string[] {
  return ["SPIRE_SERVER_API", ...(server?.startsWith("unix:") === true ? ["VM_SPIRE_SERVER"] : [])];
}
