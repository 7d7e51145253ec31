import type { SpireServer } from "../../../controller/backends/local/spire-command.ts";
import { runCommand } from "../run-command.ts";

/** What signs in the server's trust domain: the CAs as PEM, or all of it as SPIFFE has bundles, JWT keys among it. */
export async function showBundle(
  server: SpireServer,
  format: "pem" | "spiffe",
  signal: AbortSignal,
): Promise<string> {
  const command = {
    program: server.serverBinary,
    args: ["bundle", "show", "-format", format, "-socketPath", server.serverSocket],
    environment: process.env,
    deadline: 30_000,
  };
  return await runCommand(command, signal);
}
