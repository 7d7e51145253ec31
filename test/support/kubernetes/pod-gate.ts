import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Kubernetes } from "../../../scripts/peers/cluster/kubernetes.ts";

/** What steps in Pods wait for, which see no files of this machine. */
export type PodGate = AsyncDisposable & {
  /** Shell that waits until it is open. */
  readonly wait: string;
  /** Lets go on whoever waits, and whoever comes. */
  open(): void;
};

export async function startPodGate({ hostAddress }: Pick<Kubernetes, "hostAddress">): Promise<PodGate> {
  const waiting = new Set<ServerResponse>();
  let isOpen = false;
  const server = createServer((_, answer) => {
    if (isOpen) answer.end();
    else waiting.add(answer);
  });
  server.listen(0, hostAddress);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const open = () => {
    isOpen = true;
    for (const answer of waiting) answer.end();
    waiting.clear();
  };
  return {
    wait: `until curl -sf http://${hostAddress}:${port}; do sleep 1; done`,
    open,
    [Symbol.asyncDispose]: async () => {
      open();
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
