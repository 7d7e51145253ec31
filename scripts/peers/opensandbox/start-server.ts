import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Component, startComponent } from "../cluster/component.ts";
import { freePort } from "../free-port.ts";
import { startServer } from "../server-process.ts";
import type { OpenSandboxPeer } from "./prepare-server.ts";
import { serverConfiguration, type ServerSettings } from "./settings.ts";

export type OpenSandboxOptions = Pick<ServerSettings, "kubeconfig" | "namespace"> &
  Partial<Pick<ServerSettings, "createSeconds" | "poolSeconds" | "watchSeconds" | "lifeSeconds">> & {
    /** Configuration, log and database. */
    readonly folder: string;
    readonly peer: OpenSandboxPeer;
  };

/** A running OpenSandbox server. */
export type OpenSandboxServer = AsyncDisposable & {
  /** Without `/v1`; the same over restarts. */
  readonly url: URL;
  readonly key: string;
  /** Holds the key and nothing else, mode 0600. */
  readonly keyFile: string;
  readonly settings: ServerSettings;
  /** To be troubled: paused, stopped, started again. */
  readonly component: Component;
  /** Ends it at once, as a crash does, whatever it is doing. */
  kill(): Promise<void>;
  /** Ends it; stopping twice is no error. */
  stop(): Promise<void>;
};

const address = "127.0.0.1";

/** Starts a server that makes its sandboxes in a cluster, and waits until it answers. It has one key. */
export async function startOpenSandbox(
  options: OpenSandboxOptions,
  signal: AbortSignal,
): Promise<OpenSandboxServer> {
  const { folder, peer, kubeconfig, namespace } = options;
  const { createSeconds = 60, poolSeconds = 30, watchSeconds = 60, lifeSeconds = 86_400 } = options;
  const below = (name: string) => join(folder, name);
  await mkdir(folder, { recursive: true });
  const key = randomBytes(18).toString("base64url");
  const port = await freePort();
  const times = { createSeconds, poolSeconds, watchSeconds, lifeSeconds };
  const place = { address, port, database: below("opensandbox.db") };
  const settings: ServerSettings = { ...place, ...times, key, kubeconfig, namespace };
  const keyFile = below("key");
  await writeFile(below("config.toml"), serverConfiguration(settings), { mode: 0o600 });
  await writeFile(keyFile, key, { mode: 0o600 });
  const url = new URL(`http://${address}:${port}`);
  const logFile = below("opensandbox-server.log");
  // The variable of that name wins over the file.
  const { OPENSANDBOX_SERVER_API_KEY: _key, ...environment } = peer.environment;
  const launch = () =>
    startServer({
      name: peer.name,
      program: peer.program,
      args: [...peer.args, "--config", below("config.toml")],
      folder,
      environment: { ...environment, HOME: folder, NO_PROXY: address, no_proxy: address },
      logFile,
    });
  const isReady = async (abort: AbortSignal) => (await fetch(new URL("/health", url), { signal: abort })).ok;
  const component = await startComponent({ name: peer.name, logFile, launch, isReady }, signal);
  const stop = () => component.stop();
  return {
    url,
    key,
    keyFile,
    settings,
    component,
    kill: async () => {
      component.process().signal("SIGKILL");
      await component.process().exited;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
