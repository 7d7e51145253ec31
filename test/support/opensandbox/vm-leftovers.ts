import { z } from "zod";
import { askSpireServer } from "../../../controller/backends/local/spire-command.ts";
import { eventually } from "../eventually.ts";
import type { VmPlatform } from "./vm-platform.ts";

const agents = z.object({ agents: z.array(z.object({ id: z.object({ path: z.string() }) })) });
const list = z.object({ items: z.array(z.object({ metadata: z.object({ name: z.string() }) })) });
const entriesPath = "/apis/spire.spiffe.io/v1alpha1/clusterstaticentries";
const { signal } = new AbortController();
const goneMs = 90_000;

/** The sandboxes, resources of entries and guests' agents that are there. */
export async function vmLeftovers({ lab, spire }: VmPlatform): Promise<readonly string[]> {
  const { peers, serverSocket } = spire;
  const server = { serverBinary: peers.spireServer.binary, serverSocket };
  const joined = agents.parse(await askSpireServer(server, ["agent", "list"], signal)).agents;
  const entries = list.parse(await lab.apiServer.api.read(entriesPath, signal)).items;
  const sandboxes = await lab.resources.list(signal);
  return [
    ...sandboxes.map(({ id }) => `sandbox ${id}`),
    ...entries.map(({ metadata }) => `entry ${metadata.name}`),
    ...joined.map(({ id }) => id.path).filter((path) => path.startsWith("/spire/agent/join_token/ci.")),
  ];
}

/** Waits until nothing of any VM is left. */
export async function untilNoVmLeft(platform: VmPlatform): Promise<void> {
  let left: readonly string[] = [];
  const isEmpty = async () => {
    left = await vmLeftovers(platform);
    return left.length === 0;
  };
  await eventually("nothing of a VM is left", isEmpty, goneMs, 500).catch((error: unknown) => {
    throw new Error(`there is still ${left.join(", ")}`, { cause: error });
  });
}
