import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "mocha";
import type { GiteaAdmin } from "../../scripts/peers/gitea-api/admin.ts";
import { createAdmin } from "../../scripts/peers/gitea-api/admin.ts";
import type { GiteaSettings } from "../../scripts/peers/gitea-settings.ts";
import type { GiteaPeer } from "../../scripts/peers/peer.ts";
import { prepareGitea } from "../../scripts/peers/prepare-gitea.ts";
import { createReport } from "../../scripts/peers/report.ts";
import type { Gitea } from "../../scripts/peers/start-gitea.ts";
import { startGitea } from "../../scripts/peers/start-gitea.ts";

/** A real Gitea of the test file's own, with an administrator. */
export type GiteaUnderTest = {
  readonly peer: GiteaPeer;
  readonly gitea: Gitea;
  readonly admin: GiteaAdmin;
  /** Folder of the test's own; other users may read what is in it. Removed at the end. */
  readonly folder: string;
  /** Ends Gitea in order and starts it again at the same address with the same data. */
  restart(): Promise<void>;
};

/** Building Gitea, when it is not in the cache yet, takes minutes. */
const prepareMs = 30 * 60_000;

/** Registers hooks that run one Gitea for the surrounding file or `describe`; the getters work from the first `before` on. */
export function useGitea(settings: GiteaSettings = {}): GiteaUnderTest {
  let started: { peer: GiteaPeer; gitea: Gitea; admin: GiteaAdmin; folder: string } | undefined;
  const get = () => {
    if (started === undefined) throw new Error("the Gitea of this test is not started yet");
    return started;
  };
  before("start Gitea", async function () {
    this.timeout(prepareMs);
    const signal = AbortSignal.timeout(prepareMs);
    const peer = await prepareGitea({ report: createReport() }, signal);
    const folder = await mkdtemp(join(tmpdir(), "gitea-"));
    try {
      const gitea = await startGitea({ folder, peer, settings }, signal);
      try {
        started = { peer, gitea, folder, admin: await createAdmin(gitea, {}, signal) };
      } catch (error) {
        await gitea.stop();
        throw error;
      }
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  });
  after("stop Gitea", async () => {
    await started?.gitea.stop();
    if (started !== undefined) await rm(started.folder, { recursive: true, force: true });
  });
  return {
    get peer() {
      return get().peer;
    },
    get gitea() {
      return get().gitea;
    },
    get admin() {
      return get().admin;
    },
    get folder() {
      return get().folder;
    },
    restart: async () => {
      const { gitea, peer, folder } = get();
      await gitea.stop();
      const again = { folder, peer, settings, port: gitea.port };
      get().gitea = await startGitea(again, AbortSignal.timeout(prepareMs));
    },
  };
}
