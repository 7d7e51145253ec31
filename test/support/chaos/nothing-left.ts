import { readdirSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import path from "node:path";
import type { JetStreamManager } from "nats";
import type { Platform } from "../../../scripts/quick-start/platform.ts";
import { eventually } from "../eventually.ts";
import { keysLeft } from "../keys-left.ts";
import { withNats } from "../with-nats.ts";
import { stream } from "./quick-start-nats.ts";

/** What a finished job may not leave behind. */
type Left = {
  readonly messages: number;
  /** Records, reports and whatever else stands in the bucket. */
  readonly keys: number;
  readonly executors: readonly string[];
  /** Processes of executors. */
  readonly processes: readonly number[];
};

/** Resolves when no job has left anything in stream, bucket, folders and processes; rejects with what is left. */
export async function nothingLeft(platform: Pick<Platform, "nats" | "environment">): Promise<void> {
  const folder = path.join(platform.environment["LOCAL_FOLDER"] ?? "", "executors");
  await withNats(platform.nats, async ({ nats }) => {
    const manager = await nats.jetstreamManager({ checkAPI: false });
    let left: Left | undefined;
    const nothing = async () => {
      left = await see(manager, folder);
      const { messages, keys, executors, processes } = left;
      return messages + keys + executors.length + processes.length === 0;
    };
    try {
      await eventually("nothing is left", nothing);
    } catch (error) {
      throw new Error(`left: ${JSON.stringify(left)}`, { cause: error });
    }
  });
}

async function see(manager: JetStreamManager, folder: string): Promise<Left> {
  const messages = async (name: string) => (await manager.streams.info(name)).state.messages;
  return {
    messages: await messages(stream),
    keys: await keysLeft(manager, stream),
    executors: await readdir(folder),
    processes: processesBelow(folder),
  };
}

/** Everything that was started with a folder below this one as its executor's. */
function processesBelow(folder: string): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && environmentOf(name).includes(`CI_EXECUTOR_FOLDER=${folder}/`))
    .map(Number);
}

function environmentOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8");
  } catch {
    // It has ended meanwhile.
    return "";
  }
}
