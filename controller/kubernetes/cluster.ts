import type { Clock } from "../platform/clock.ts";
import { withDeadline } from "../platform/signal.ts";

/** How to show oneself to an API server, and how to know it. */
export type Credential = {
  /** `Authorization` among them, unless a client certificate is all there is. */
  readonly headers: Readonly<Record<string, string>>;
  /** PEM. Without it the authorities that Node knows count. */
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** The name in the server's certificate, if it is another one than that of the address. */
  readonly servername?: string;
};

/** An API server, and who we are there. */
export type Cluster = {
  /** `https://host:port`, maybe with a path before that of each call. */
  readonly server: URL;
  /**
   * The credential of now, from its files. `anew`: the one before was refused, so nothing that was kept counts.
   * Rejects with ClusterConfigError, which names the file or variable.
   */
  readonly load: (anew: boolean) => Promise<Credential>;
};

/** What keeps us from speaking to an API server at all. It names files and variables, and quotes nothing of them. */
export class ClusterConfigError extends Error {
  override readonly name = "ClusterConfigError";
}

export type Credentials = {
  /**
   * The credential of now, read anew once a minute: tokens of a service account are replaced long before they
   * expire. One that cannot be read anew goes on to count as long as the server takes it.
   */
  current(signal: AbortSignal): Promise<Credential>;
  /** The server refused this one: the next call reads it anew. */
  refused(credential: Credential): void;
};

const everyMs = 60_000;
/** For a credential that a program has to fetch. */
const loadMs = 30_000;

export function createCredentials(cluster: Pick<Cluster, "load">, clock: Clock): Credentials {
  let last: { readonly credential: Credential; readonly at: number } | undefined;
  let loading: Promise<Credential> | undefined;
  let anew = false;
  const load = async () => {
    const { signal } = new AbortController();
    try {
      const credential = await withDeadline(clock, loadMs, () => cluster.load(anew), signal);
      last = { credential, at: clock.now() };
      anew = false;
      return credential;
    } catch (error) {
      if (last !== undefined) {
        // Not at every call: a program may take its time each time.
        last = { ...last, at: clock.now() };
        return last.credential;
      }
      if (error instanceof ClusterConfigError) throw error;
      const seconds = loadMs / 1000;
      throw new ClusterConfigError(
        `KUBECONFIG: the program that it names gave no credential within ${seconds} s`,
        { cause: error },
      );
    } finally {
      loading = undefined;
    }
  };
  return {
    current: async (signal) => {
      signal.throwIfAborted();
      // A clock that was set back must not keep an old token alive.
      const age = last === undefined ? Infinity : Math.abs(clock.now() - last.at);
      if (last !== undefined && age < everyMs) return last.credential;
      loading ??= load();
      return await loading;
    },
    refused: (credential) => {
      if (last?.credential !== credential) return;
      last = undefined;
      anew = true;
    },
  };
}
