import { z } from "zod";
import { askSpireServer, type SpireServer } from "../../../controller/backends/local/spire-command.ts";

const active = z.object({ active: z.object({ authority_id: z.string() }) });
const prepared = z.object({ prepared_authority: z.object({ authority_id: z.string() }) });

/** The id of the CA that signs now. */
export async function activeX509Authority(server: SpireServer, signal: AbortSignal): Promise<string> {
  const answer = await askSpireServer(server, ["localauthority", "x509", "show"], signal);
  return active.parse(answer).active.authority_id;
}

/** Makes the server's next CA and puts it into the bundle, beside the one that signs; resolves to its id. */
export async function prepareX509Authority(server: SpireServer, signal: AbortSignal): Promise<string> {
  const answer = await askSpireServer(server, ["localauthority", "x509", "prepare"], signal);
  return prepared.parse(answer).prepared_authority.authority_id;
}

/** From now on the prepared CA signs; the old one stays in the bundle until it expires. */
export async function activateX509Authority(
  server: SpireServer,
  authorityId: string,
  signal: AbortSignal,
): Promise<void> {
  await askSpireServer(server, ["localauthority", "x509", "activate", "-authorityID", authorityId], signal);
}

/** Has the agents replace at once whatever the CA before the present one has signed, their own SVIDs included. */
export async function taintX509Authority(
  server: SpireServer,
  authorityId: string,
  signal: AbortSignal,
): Promise<void> {
  await askSpireServer(server, ["localauthority", "x509", "taint", "-authorityID", authorityId], signal);
}

/** Takes a tainted CA out of the bundle. An agent whose own SVID is still of that CA is lost for good. */
export async function revokeX509Authority(
  server: SpireServer,
  authorityId: string,
  signal: AbortSignal,
): Promise<void> {
  await askSpireServer(server, ["localauthority", "x509", "revoke", "-authorityID", authorityId], signal);
}
