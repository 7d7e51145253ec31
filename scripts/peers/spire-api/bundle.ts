import type { SpireServer } from "../../../controller/backends/local/spire-command.ts";
import { runCommand } from "../run-command.ts";

/** The CAs of the server's trust domain, as PEM. */
export async function showBundle(server: SpireServer, signal: AbortSignal): Promise<string> {
  const command = {
    program: server.serverBinary,
    args: ["bundle", "show", "-socketPath", server.serverSocket],
    environment: process.env,
    deadline: 30_000,
  };
  return await runCommand(command, signal);
}
