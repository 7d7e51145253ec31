import { runCommand } from "../run-command.ts";
import type { Namespaces } from "./namespaces.ts";
import { debianProgram, systemEnvironment } from "./obstacle.ts";
import type { Slot } from "./slot.ts";

const deadline = 60_000;

/** Of the one Service that every Pod knows: the first address of the range of Services. */
export const apiServiceAddress = "10.96.0.1";

/** Joins the namespaces to us by a link of two addresses. It ends with them. */
export async function joinNetwork(
  slot: Slot,
  namespaces: Namespaces,
  ourEnvironment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<void> {
  const environment = systemEnvironment(ourEnvironment);
  const program = await debianProgram("ip", environment);
  const outside = async (...args: readonly string[]) =>
    await runCommand({ program, args, environment, deadline }, signal);
  const inside = async (...args: readonly string[]) => await namespaces.run("ip", args, signal);
  const peer = ["peer", "name", "eth0", "netns", String(namespaces.pid)];
  await outside("link", "add", slot.name, "type", "veth", ...peer);
  await outside("address", "add", `${slot.hostIp}/30`, "dev", slot.name);
  await outside("link", "set", slot.name, "up");
  await inside("link", "set", "lo", "up");
  await inside("address", "add", `${slot.nodeIp}/30`, "dev", "eth0");
  await inside("link", "set", "eth0", "up");
  await inside("route", "add", "default", "via", slot.hostIp);
  // Of this network namespace only.
  await namespaces.run("sh", ["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"], signal);
}

/** What kube-proxy would do, for the API server's Service and no other. */
export async function serveApiAddress(
  { nodeIp }: Slot,
  port: number,
  namespaces: Namespaces,
  signal: AbortSignal,
): Promise<void> {
  const calls = ["-d", `${apiServiceAddress}/32`, "-p", "tcp", "--dport", "443"];
  const go = ["-j", "DNAT", "--to-destination", `${nodeIp}:${port}`];
  await namespaces.run("iptables", ["-w", "-t", "nat", "-A", "PREROUTING", ...calls, ...go], signal);
}
