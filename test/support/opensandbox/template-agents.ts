import path from "node:path";
import { readFile } from "node:fs/promises";
import { createSpireEntries } from "../../../controller/backends/local/spire-entries.ts";
import { parseSpiffeId, type SpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { createJoinToken } from "../../../scripts/peers/spire-api/join-token.ts";
import type { Spire } from "../../../scripts/peers/start-spire.ts";
import { newName } from "./under-test.ts";
import type { PlayedVm, VmHost } from "./vm-host.ts";

/** As `VM_SPIFFE_SOCKET` is unless given. */
const socket = "/run/spire/agent-sockets/spire-agent.sock";

/** Runs in the VM as root, before anybody knows its job. */
const script = `
set -e
umask 022
mkdir -p ${path.dirname(socket)} /run/spire/agent
printf '%s\\n' "$BUNDLE" > /run/spire/bundle.pem
printf '%s\\n' "$CONFIGURATION" > /run/spire/agent.json
exec spire-agent run -config /run/spire/agent.json
`;

/**
 * VMs of a template that brings an agent and its socket. Whoever made it has arranged that the job's user of a VM has these
 * identities: `identities` is asked when its place is taken.
 */
export function withTemplateAgents(
  host: VmHost,
  spire: Spire,
  identities: () => Promise<readonly SpiffeId[]>,
): VmHost {
  const { peers, serverSocket, trustDomain } = spire;
  const server = { serverBinary: peers.spireServer.binary, serverSocket };
  const entries = createSpireEntries(server);
  const start = async (name: string, changed: () => void, signal: AbortSignal): Promise<PlayedVm> => {
    const vm = await host.start(name, changed, signal);
    const parentId = parseSpiffeId(`spiffe://${trustDomain}/${newName("vm")}`);
    const token = await createJoinToken(server, parentId, signal);
    for (const spiffeId of await identities()) {
      const entry = { id: newName("template"), spiffeId, parentId, selectors: ["unix:uid:2000"] };
      await entries.create({ ...entry, x509TtlSeconds: 600 }, signal);
    }
    const environment = {
      BUNDLE: await readFile(spire.bundleFile, "utf8"),
      CONFIGURATION: JSON.stringify(configurationOf(spire, token)),
    };
    await vm.run({ command: ["/bin/bash", "-c", script], environment });
    return vm;
  };
  return { start };
}

function configurationOf({ trustDomain, serverAddress, serverPort }: Spire, token: string): object {
  return {
    agent: {
      trust_domain: trustDomain,
      server_address: serverAddress,
      server_port: serverPort,
      trust_bundle_path: "/run/spire/bundle.pem",
      join_token: token,
      data_dir: "/run/spire/agent",
      socket_path: socket,
      log_level: "INFO",
    },
    plugins: {
      NodeAttestor: [{ join_token: { plugin_data: {} } }],
      KeyManager: [{ memory: { plugin_data: {} } }],
      WorkloadAttestor: [{ unix: { plugin_data: {} } }],
    },
  };
}
