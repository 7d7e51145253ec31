import { copyFile, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { stageProgram } from "../../../controller/backends/local/stage-program.ts";
import { runnerConfiguration } from "../../../scripts/peers/cluster/image/program-layers.ts";
import type { Peer } from "../../../scripts/peers/peer.ts";
import type { VmImage } from "./process-vms.ts";

const repository = path.join(import.meta.dirname, "../../..");
const passwd = "root:x:0:0:root:/root:/bin/bash\nrunner:x:2000:2000:runner:/home/runner:/bin/bash\n";

/** Puts together in the folder what `runner-image/README.md` asks of an image, of the sources as they are now. */
export async function makeVmImage(
  folder: string,
  peers: { readonly giteaRunner: Peer; readonly spireAgent: Peer },
): Promise<VmImage> {
  const staged = await stageProgram({
    source: repository,
    target: folder,
    node: process.execPath,
    giteaRunnerBinary: peers.giteaRunner.binary,
    spireAgentBinary: peers.spireAgent.binary,
  });
  const programs = path.join(folder, "bin");
  await mkdir(programs, { mode: 0o755 });
  const entry = "gitea-opensandbox-runner";
  await copyFile(path.join(repository, "scripts", entry), path.join(programs, entry));
  const bootstrap = `#!/bin/sh\nexec '${staged.node}' '${staged.bootstrap}' "$@"\n`;
  await writeFile(path.join(programs, "gitea-dynamic-runner"), bootstrap, { mode: 0o755 });
  const etc = path.join(folder, "etc");
  await mkdir(path.join(etc, "gitea-runner"), { recursive: true, mode: 0o755 });
  await writeFile(path.join(etc, "gitea-runner/config.yaml"), runnerConfiguration);
  await writeFile(path.join(etc, "passwd"), passwd);
  await writeFile(path.join(etc, "group"), "root:x:0:\nrunner:x:2000:\n");
  return { programs: [programs, path.join(staged.folder, "bin")], etc };
}
