import http, { type IncomingMessage } from "node:http";
import https from "node:https";

/** One request to the server. */
export type Call = {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Below the base; what is not of our own making is escaped. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
};

export type Connections = {
  /** The beginning of an answer. */
  send(call: Call, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<IncomingMessage>;
  close(): void;
};

/**
 * Connections to `url`, kept for a while, over http or https as it says. A create has one of its own: one that the
 * server closes right now would leave it unknown whether a VM comes.
 */
export function createConnections(url: URL, idleMs: number, ca: string | undefined): Connections {
  const base = basePathOf(url);
  const isSecure = url.protocol === "https:";
  const agentOptions = { keepAlive: true, timeout: idleMs };
  const agent = isSecure ? new https.Agent(agentOptions) : new http.Agent(agentOptions);
  // Whatever the environment says, who the server is matters.
  const tls = isSecure ? { rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) } : {};
  return {
    send: ({ method, path, query, body }, headers, signal) => {
      const search = query === undefined ? "" : `?${new URLSearchParams(query).toString()}`;
      const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
      return new Promise((resolve, reject) => {
        const request = (isSecure ? https : http).request({
          agent: method === "POST" ? false : agent,
          signal,
          method,
          host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
          port: url.port === "" ? (isSecure ? 443 : 80) : url.port,
          path: `${base}${path}${search}`,
          headers: {
            ...headers,
            Accept: "application/json",
            "User-Agent": "gitea-dynamic-runner",
            ...(bytes === undefined
              ? {}
              : { "Content-Type": "application/json", "Content-Length": bytes.length }),
          },
          ...tls,
        });
        request.once("response", resolve);
        // Also what comes after the answer has begun, which its reader hears of.
        request.on("error", reject);
        request.end(bytes);
      });
    },
    close: () => agent.destroy(),
  };
}

/** The API's path on the server: `/v1` at the end, added unless it is there. */
export function basePathOf({ pathname }: URL): string {
  const path = pathname.replace(/\/+$/, "");
  return path.endsWith("/v1") ? path : `${path}/v1`;
}
