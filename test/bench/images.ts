import { appendFile } from "node:fs/promises";
import path from "node:path";
import { readPushed } from "../support/images/pushed-image.ts";
import { type OurImage, openImages } from "../support/images/use-images.ts";
import { summary } from "./figures.ts";
import { loadNow, tellMachine } from "./pods-cluster.ts";

// How large the two images are, and how long a BuildKit of its own takes to build and push them to a registry on loopback.
// With a name only that one, as in `node test/bench/images.ts 3 controller`.
const runs = Number(process.argv[2] ?? 3);
const only = process.argv[3];

/** A file of each that changes often. */
const images = [
  { name: "controller", goal: 120, source: "controller/main.ts" },
  { name: "runner-image", goal: 400, source: "controller/bootstrap/main.ts" },
] as const;
const megabyte = 1_000_000;

tellMachine();
const signal = AbortSignal.timeout(60 * 60_000);
await using lab = await openImages(signal);

async function timed(
  build: () => Promise<string>,
): Promise<{ readonly ms: number; readonly digest: string }> {
  const begun = performance.now();
  const digest = await build();
  return { ms: performance.now() - begun, digest };
}

async function times(build: (run: number) => Promise<string>): Promise<readonly number[]> {
  const all: number[] = [];
  for (let run = 0; run < runs; run++) all.push((await timed(() => build(run))).ms);
  return all;
}

/** Sizes and times of one, as rows of a table. */
async function measure(name: OurImage, goal: number, source: string): Promise<void> {
  const row = (what: string, figure: string) => console.log(`| ${name} | ${what} | ${figure} |`);
  const seconds = (all: readonly number[]) => `${summary(all)} s`;
  const first = await timed(() => lab.publishPlain(name, signal));
  const { size, layers } = await readPushed(lab.registry.url, name, first.digest);
  row("compressed", `${(size / megabyte).toFixed(1)} MB in ${layers.length} layers; goal ${goal} MB`);
  row("first build, nothing there", seconds([first.ms]));
  row("cold: every step again", seconds(await times(() => lab.rebuild(name, signal))));
  row("warm: nothing changed", seconds(await times(() => lab.publishPlain(name, signal))));
  const changed = async (run: number) => {
    await appendFile(path.join(lab.sources, source), `// ${run}\n`);
    return await lab.publishPlain(name, signal);
  };
  row(`warm: ${source} changed`, seconds(await times(changed)));
  const published = await timed(() => lab.publish(name, signal));
  row("warm, with SBOM and provenance", seconds([published.ms]));
}

console.log("| image | what | figure |\n| --- | --- | --- |");
for (const { name, goal, source } of images)
  if (only === undefined || only === name) await measure(name, goal, source);
console.log(loadNow());
