import { z } from "zod";
import { askSpireServer, type SpireServer } from "../../../controller/backends/local/spire-command.ts";

const answer = z.object({ value: z.string() });

/** A token with which one agent may join, once; it is then also known as `aliasId`, the parent of its workloads' entries. */
export async function createJoinToken(
  server: SpireServer,
  aliasId: string,
  signal: AbortSignal,
): Promise<string> {
  const command = ["token", "generate", "-spiffeID", aliasId];
  return answer.parse(await askSpireServer(server, command, signal)).value;
}
