import { createServer, type Server, type ServerResponse } from "node:http";

/** Says what is wrong, or undefined when nothing is. */
export type Check = { readonly name: string; problem(): string | undefined };

/** Asked for anew by each call: parts of the process come to be later than its pages. */
export type Checks = () => readonly Check[];

export type HealthOptions = {
  /** Each loop makes progress; where one does not, a restart of the process helps. */
  readonly alive: Checks;
  /** Nothing is wrong that an operator should look at; a restart does not help. */
  readonly well: Checks;
  /** The process can serve. Outages of Gitea, NATS or the API server are none of its faults. */
  readonly ready: Checks;
  /** For `/metrics`. */
  readonly metrics?: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly listen: { readonly host: string | undefined; readonly port: number };
};

/**
 * Serves `/livez` (alive), `/healthz` (alive and well) and `/readyz` (ready): 200, or 503 with a line for each
 * problem; and `/metrics`. Rejects if it cannot listen.
 */
export async function serveHealth(options: HealthOptions): Promise<AsyncDisposable> {
  const { alive, well, ready, metrics, listen } = options;
  const pages = new Map<string, Checks>([
    ["/livez", alive],
    ["/healthz", () => [...alive(), ...well()]],
    ["/readyz", ready],
  ]);
  const server = createServer((request, response) => {
    const path = request.url?.split("?")[0] ?? "";
    if (path === "/metrics" && metrics !== undefined) {
      void scrape(metrics, response);
      return;
    }
    const problems = pages
      .get(path)?.()
      .flatMap((check) => problemOf(check));
    const status = problems === undefined ? 404 : problems.length > 0 ? 503 : 200;
    const body = problems === undefined ? "not found" : problems.length > 0 ? problems.join("\n") : "ok";
    response.writeHead(status, { "content-type": "text/plain; charset=utf-8" }).end(`${body}\n`);
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen({ port: listen.port, ...(listen.host === undefined ? {} : { host: listen.host }) }, resolve);
  await promise;
  return { [Symbol.asyncDispose]: () => close(server) };
}

async function scrape(
  metrics: NonNullable<HealthOptions["metrics"]>,
  response: ServerResponse,
): Promise<void> {
  try {
    const { contentType, text } = await metrics();
    response.writeHead(200, { "content-type": contentType }).end(text);
  } catch {
    response.writeHead(500, { "content-type": "text/plain; charset=utf-8" }).end("no metrics\n");
  }
}

function problemOf(check: Check): readonly string[] {
  try {
    const said = check.problem();
    return said === undefined ? [] : [`${check.name}: ${said}`];
  } catch {
    return [`${check.name}: it cannot be checked`];
  }
}

function close(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
  server.closeAllConnections();
  return closed;
}
