import { createServer, request as ask } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { createReport } from "../../scripts/peers/report.ts";
import { startPlatform } from "../../scripts/quick-start/platform.ts";
import { preparePeers } from "../../scripts/quick-start/prepare-peers.ts";
import { freePort } from "../../scripts/peers/free-port.ts";

// How many requests an idle controller makes to Gitea: counted by a proxy between the two.
const minutes = 2;

const counts = new Map<string, number>();
let giteaPort = 0;
const proxy = createServer((request, response) => {
  const name = request.url?.split("/").at(-1) ?? "";
  counts.set(name, (counts.get(name) ?? 0) + 1);
  const { method, headers } = request;
  const onward = ask({ host: "127.0.0.1", port: giteaPort, path: request.url, method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  request.pipe(onward);
});
const port = await freePort();
proxy.listen(port, "127.0.0.1");
const signal = AbortSignal.timeout(30 * 60_000);
const peers = await preparePeers(createReport(), signal);
const controller = { GITEA_URL: `http://127.0.0.1:${port}` };
const onStep = (what: string) => {
  giteaPort = Number(/^Gitea .* answers at .*:(\d+)$/.exec(what)?.[1] ?? giteaPort);
};
await using platform = await startPlatform({ peers, controller, onStep }, signal);
// Past the start.
await delay(10_000);
counts.clear();
await delay(minutes * 60_000);
for (const [name, count] of counts)
  console.log(`${name}: ${(count / minutes).toFixed(1)} requests a minute on an idle controller`);
await platform.stop();
proxy.closeAllConnections();
proxy.close();
