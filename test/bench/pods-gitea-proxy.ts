import { createServer, type IncomingMessage, request as ask, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { systemClock } from "../../controller/platform/clock.ts";
import { type Calls, createCalls } from "./pods-calls.ts";

/** Stands between one controller and its Gitea, and counts. */
export type GiteaProxy = AsyncDisposable & {
  readonly url: string;
  readonly calls: Calls;
  /** When a task was handed out last before that time; milliseconds since the epoch. */
  handedOutBefore(time: number): number;
};

/** An answer of FetchTask without a task is a number. */
const taskBytes = 500;

export async function startGiteaProxy(gitea: string): Promise<GiteaProxy> {
  const calls = createCalls();
  const handedOut: number[] = [];
  const relay = (incoming: IncomingMessage, outgoing: ServerResponse, name: string) => {
    const { method, url = "/", headers } = incoming;
    const onward = ask(new URL(url, gitea), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      let bytes = 0;
      answer.on("data", (chunk: Buffer) => void (bytes += chunk.length));
      answer.on("end", () => {
        if (name === "FetchTask" && bytes > taskBytes) handedOut.push(systemClock.now());
      });
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  };
  const server = createServer((incoming, outgoing) => {
    const name = incoming.url?.split("/").at(-1) ?? "";
    calls.count(name);
    relay(incoming, outgoing, name);
  });
  // Neither Gitea nor the API server closes a connection after 5 s.
  server.keepAliveTimeout = 600_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    handedOutBefore: (time) => handedOut.findLast((at) => at <= time) ?? NaN,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
