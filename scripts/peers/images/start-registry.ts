import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../free-port.ts";
import { startComponent } from "../cluster/component.ts";
import { type ServerProcess, startServer } from "../server-process.ts";

/** Whom a registry believes, https://distribution.github.io/distribution/spec/auth/token/. */
export type TokenService = {
  readonly realm: string;
  readonly service: string;
  readonly issuer: string;
  /** File with the certificate of whoever signs its tokens. */
  readonly certificate: string;
};

export type RegistryOptions = {
  /** Of the registry's program. */
  readonly program: string;
  readonly folder: string;
  /** Anybody may do anything unless given. */
  readonly tokens?: TokenService;
  /** A free one unless given. */
  readonly port?: number;
};

/** A registry on loopback, without TLS. */
export type Registry = AsyncDisposable & {
  /** As in image references. */
  readonly host: string;
  readonly url: string;
  process(): ServerProcess;
  stop(): Promise<void>;
  /** Starts it again with what it had. */
  start(signal: AbortSignal): Promise<void>;
};

/** Starts a registry and waits until it answers. Rejects with the end of its log when it does not. */
export async function startRegistry(options: RegistryOptions, signal: AbortSignal): Promise<Registry> {
  const { program, folder, tokens } = options;
  const port = options.port ?? (await freePort());
  const host = `127.0.0.1:${port}`;
  const file = join(folder, "registry.json");
  await mkdir(folder, { recursive: true });
  // JSON is YAML, which is what it reads.
  const settings = {
    version: "0.1",
    log: { level: "warn" },
    storage: { filesystem: { rootdirectory: join(folder, "registry") } },
    // Whoever is in front of it may have another name, and TLS.
    http: { addr: host, relativeurls: true },
    ...(tokens === undefined
      ? {}
      : { auth: { token: { ...tokens, certificate: undefined, rootcertbundle: tokens.certificate } } }),
  };
  await writeFile(file, JSON.stringify(settings));
  const logFile = join(folder, "registry.log");
  const launch = async () =>
    await startServer({
      name: "docker-registry",
      program,
      args: ["serve", file],
      folder,
      // It reads REGISTRY_* variables, too.
      environment: { PATH: process.env["PATH"] },
      logFile,
    });
  const isReady = async (abort: AbortSignal) => {
    const { status } = await fetch(`http://${host}/v2/`, { signal: abort });
    return status === 200 || status === 401;
  };
  const component = await startComponent({ name: "docker-registry", logFile, launch, isReady }, signal);
  return {
    host,
    url: `http://${host}`,
    process: () => component.process(),
    stop: () => component.stop(),
    start: (abort) => component.start(abort),
    [Symbol.asyncDispose]: () => component.stop(),
  };
}
