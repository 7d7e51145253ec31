import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { after, before } from "mocha";
import { preparePeer } from "../../scripts/peers/prepare-peer.ts";
import { createReport } from "../../scripts/peers/report.ts";
import type { Nats, NatsOptions } from "../../scripts/peers/start-nats.ts";
import { startNats } from "../../scripts/peers/start-nats.ts";

export type NatsSettings = Pick<NatsOptions, "user" | "password" | "maxPayload" | "extraConfiguration">;

/** A real nats-server of the test file's own. Address and password stay the same over restarts. */
export type NatsUnderTest = {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly passwordFile: string;
  /** Starts it again on the same port, with the streams that it had. */
  start(): Promise<void>;
  /** Ends it in order, as an administrator would. */
  stop(): Promise<void>;
  /** Ends it at once, as a crash would. */
  kill(): Promise<void>;
  /** Stop, then start. */
  restart(): Promise<void>;
  /** Connections stay open, nothing is answered once this resolves; what is sent meanwhile is done at `resume`. */
  pause(): Promise<void>;
  resume(): void;
  /** Starts it again with no streams at all, as after the loss of its disk. */
  wipe(): Promise<void>;
};

/** Building the server, when it is not in the cache yet, takes up to a minute on a small machine. */
const prepareMs = 600_000;

/** Registers hooks that run one nats-server for the surrounding file or `describe`; the getters work from the first `before` on. */
export function useNats(settings: NatsSettings = {}): NatsUnderTest {
  let folder: string | undefined;
  let first: Nats | undefined;
  let current: Nats | undefined;

  const server = () => {
    if (first === undefined) throw new Error("the nats-server of this test is not started yet");
    return first;
  };
  const running = () => {
    if (current === undefined) throw new Error("the nats-server of this test is stopped");
    return current;
  };
  const start = async () => {
    if (current !== undefined || folder === undefined) return;
    const same = first === undefined ? {} : { port: first.port, password: first.password };
    const signal = AbortSignal.timeout(prepareMs);
    const peer = await preparePeer("nats-server", { report: createReport() }, signal);
    current = await startNats({ ...settings, ...same, peer, folder }, signal);
    first ??= current;
  };
  const stop = async () => {
    const stopping = current;
    current = undefined;
    await stopping?.stop();
  };

  before("start nats-server", async function () {
    this.timeout(prepareMs);
    folder = await mkdtemp(join(tmpdir(), "nats-"));
    await start();
  });
  after("stop nats-server", async () => {
    await stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  return {
    get url() {
      return server().url;
    },
    get user() {
      return server().user;
    },
    get password() {
      return server().password;
    },
    get passwordFile() {
      return server().passwordFile;
    },
    start,
    stop,
    kill: async () => {
      const killed = running();
      killed.signal("SIGKILL");
      current = undefined;
      await killed.exited;
    },
    restart: async () => {
      await stop();
      await start();
    },
    pause: async () => {
      const paused = running();
      paused.signal("SIGSTOP");
      await allThreadsStopped(paused.pid);
    },
    resume: () => running().signal("SIGCONT"),
    wipe: async () => {
      await stop();
      if (folder !== undefined) await rm(join(folder, "jetstream"), { recursive: true, force: true });
      await start();
    },
  };
}

/** On a busy machine a thread may go on for a while after the signal was sent. */
async function allThreadsStopped(pid: number): Promise<void> {
  for (;;) {
    const threads = await readdir(`/proc/${pid}/task`);
    const states = await Promise.all(
      threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/stat`, "utf8")),
    );
    if (states.every((stat) => /^\d+ \(.*\) T/.test(stat))) return;
    await setTimeout(5);
  }
}
