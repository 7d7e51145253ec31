import { dockerObstacle, prepareDocker } from "../../scripts/peers/docker/prepare-docker.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { labObstacle, startDockerLab } from "../support/images/docker-lab.ts";
import { summary } from "./figures.ts";
import { loadNow, tellMachine } from "./pods-cluster.ts";

// How long `setup-job-docker` takes with a real dockerd, and within it from the start of dockerd until it is ready.
const runs = Number(process.argv[2] ?? 10);

/** Where Docker's data lies, by what has to be done for it before. */
const places = {
  "a loop-backed ext4, made by the script": "true",
  "a mounted directory":
    'mkdir -p "$FOLDER/data" /var/lib/docker; mount --bind "$FOLDER/data" /var/lib/docker',
} as const;

/** Prints two microseconds-of-the-epoch pairs: of the script, and from the line before dockerd's start to the last one. */
const timed = `
begun=$EPOCHREALTIME
/mnt/scripts/setup-job-docker 2>&1 | while IFS= read -r line; do echo "$EPOCHREALTIME $line"; done
status=\${PIPESTATUS[0]} ended=$EPOCHREALTIME
echo "$begun begun"
echo "$ended ended"
exit "$status"`;

type Run = { readonly script: number; readonly dockerd: number };

/** In namespaces of its own, which know no other Docker. */
async function setUp(folders: readonly string[], prepare: string): Promise<Run> {
  await using lab = await startDockerLab(folders);
  const environment = { FOLDER: lab.folder };
  const { exitCode, stdout, stderr } = await lab.run(`${prepare}\n${timed}`, environment);
  if (exitCode !== 0) throw new Error(`setup-job-docker ended with ${exitCode}\n${stdout}\n${stderr}`);
  const at = (pattern: RegExp) => {
    const line = stdout.split("\n").find((one) => pattern.test(one));
    return Number(line?.split(" ")[0]) * 1000;
  };
  const [started, ready] = [at(/ waiting for dockerd/), at(/ is ready: /)];
  return { script: at(/ ended$/) - at(/ begun$/), dockerd: ready - started };
}

const obstacle = (await dockerObstacle(process.env)) ?? (await labObstacle());
if (obstacle !== undefined) throw new Error(obstacle);
tellMachine();
const { folders } = await prepareDocker({ report: createReport() }, AbortSignal.timeout(600_000));
console.log(
  "| Docker's data lies on | all of setup-job-docker | start of dockerd → ready |\n| --- | --- | --- |",
);
for (const [place, prepare] of Object.entries(places)) {
  const all: Run[] = [];
  for (let run = 0; run < runs; run++) all.push(await setUp(folders, prepare));
  const [script, dockerd] = (["script", "dockerd"] as const).map((what) =>
    summary(all.map((one) => one[what])),
  );
  console.log(`| ${place} | ${script} s | ${dockerd} s |`);
}
console.log(`${runs} runs each, ${loadNow()}`);
