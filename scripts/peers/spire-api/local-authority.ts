import { z } from "zod";
import { askSpireServer, type SpireServer } from "../../../controller/backends/local/spire-command.ts";

const prepared = z.object({ prepared_authority: z.object({ authority_id: z.string() }) });

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
