import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Peer } from "./peer.ts";
import { preparePeer } from "./prepare-peer.ts";
import { startServer } from "./server-process.ts";

export type NatsOptions = {
  /** Keeps configuration, log and JetStream's files; starting again in the same folder finds the streams again. */
  readonly folder: string;
  /** Prepared here unless given. */
  readonly peer?: Peer;
  /** Where it listens; 127.0.0.1 unless given. */
  readonly address?: string;
  /** A free one unless given. */
  readonly port?: number;
  /** `ci` unless given. */
  readonly user?: string;
  /** A random one unless given. */
  readonly password?: string;
  /** Bytes of the largest message, 8 MiB unless given. */
  readonly maxPayload?: number;
  /** More lines for the configuration file, in the server's own syntax. */
  readonly extraConfiguration?: string;
};

/** A running nats-server with JetStream. */
export type Nats = AsyncDisposable & {
  readonly url: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  /** Holds the password and nothing else, mode 0600. */
  readonly passwordFile: string;
  readonly pid: number;
  /** Resolves to how it ended; never rejects. */
  readonly exited: Promise<string>;
  /** Sends it a signal, for tests of faults. */
  signal(name: NodeJS.Signals): void;
  /** Ends it; resolves when nothing of it is left. Stopping twice is no error. */
  stop(): Promise<void>;
};

const startDeadlineMs = 60_000;

/**
 * Starts a nats-server with JetStream and waits until it is ready. Rejects with the end of its log when it does not
 * start. Aborting the signal gives up the start; a server that runs is ended by `stop`.
 */
export async function startNats(options: NatsOptions, signal: AbortSignal): Promise<Nats> {
  const { folder, address = "127.0.0.1", user = "ci" } = options;
  const { password = randomBytes(18).toString("base64url") } = options;
  const peer = options.peer ?? (await preparePeer("nats-server", {}, signal));
  await mkdir(folder, { recursive: true });
  const configuration = join(folder, "nats-server.conf");
  const passwordFile = join(folder, "nats-password");
  const lines = [
    `host: ${address}`,
    `port: ${options.port ?? -1}`,
    `max_payload: ${options.maxPayload ?? 8 * 1024 * 1024}`,
    `jetstream { store_dir: ${JSON.stringify(join(folder, "jetstream"))} }`,
    `authorization { user: ${JSON.stringify(user)}, password: ${JSON.stringify(password)} }`,
    options.extraConfiguration ?? "",
  ];
  await writeFile(configuration, `${lines.join("\n")}\n`, { mode: 0o600 });
  await writeFile(passwordFile, password, { mode: 0o600 });

  const server = await startServer({
    name: "nats-server",
    program: peer.binary,
    args: ["-c", configuration],
    folder,
    environment: process.env,
    logFile: join(folder, "nats-server.log"),
  });
  try {
    const listening = await server.line(/client connections on [\d.]+:(\d+)/, startDeadlineMs, signal);
    await server.line(/Server is ready/, startDeadlineMs, signal);
    const port = Number(listening[1]);
    return {
      url: `nats://${address}:${port}`,
      port,
      user,
      password,
      passwordFile,
      pid: server.pid,
      exited: server.exited,
      signal: (name) => server.signal(name),
      stop: () => server.stop(),
      [Symbol.asyncDispose]: () => server.stop(),
    };
  } catch (error) {
    await server.stop(0);
    throw error;
  }
}
