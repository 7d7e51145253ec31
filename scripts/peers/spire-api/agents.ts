import { z } from "zod";
import { askSpireServer, type SpireServer } from "../../../controller/backends/local/spire-command.ts";

const listed = z.object({ agents: z.array(z.object({ x509svid_serial_number: z.string() })) });

/** The serial numbers of the agents' own SVIDs: a new one says that the agent has renewed itself. */
export async function agentSerialNumbers(
  server: SpireServer,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { agents } = listed.parse(await askSpireServer(server, ["agent", "list"], signal));
  return agents.map((agent) => agent.x509svid_serial_number);
}
