import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before } from "mocha";
import { freePort } from "../../../scripts/peers/free-port.ts";
import { type Contexts, layOutBases } from "../../../scripts/peers/images/base-images.ts";
import { buildImage } from "../../../scripts/peers/images/build-image.ts";
import { imagesObstacle } from "../../../scripts/peers/images/obstacle.ts";
import { type ImageParts, prepareImages } from "../../../scripts/peers/images/prepare-images.ts";
import { pushSbomGenerator } from "../../../scripts/peers/images/sbom-generator.ts";
import { type Buildkit, startBuildkit } from "../../../scripts/peers/images/start-buildkit.ts";
import { type Registry, startRegistry } from "../../../scripts/peers/images/start-registry.ts";
import { createReport } from "../../../scripts/peers/report.ts";
import { skipFor } from "../needs-tools.ts";
import { createTestCa, type TestCa } from "../test-pki.ts";

/** Stands in for what a developer has lying about in a checkout; no image may hold it. */
export const planted = "planted-secret-7f1c2a";
/** What a provenance calls the builder of these tests. */
export const builderId = "https://builder.example/images";
/** Seconds: 1 December 2026. No file of the sources is older. */
export const epoch = 1_796_083_200;
const buildMs = 90 * 60_000;
const usualName = "registry.example";

const repository = path.join(import.meta.dirname, "../../..");
const sources = [
  "controller",
  "package.json",
  "package-lock.json",
  "proto",
  "runner-image",
  "scripts",
] as const;
const secretFiles = [
  ".env",
  ".npmrc",
  "controller/.env",
  "controller/token",
  "controller/identity/key.pem",
  "infra/kubeconfig",
  "node_modules/.cache/token",
  "node_modules/pino/pino.js",
  "proto/gen/token",
  "runner-image/.env",
  "runner-image/id_ed25519",
  "scripts/token",
];

/** Image of ours by the folder of its Dockerfile. */
export type OurImage = "controller" | "runner-image";

/** BuildKit and a registry for all tests of a `describe`; there from its first test on. */
export type ImagesUnderTest = {
  readonly parts: ImageParts;
  readonly registry: Registry;
  readonly buildkit: Buildkit;
  readonly contexts: Contexts;
  /** Reference of the image that lists what images hold. */
  readonly sbomGenerator: string;
  /** Nobody listens here: for a registry of the test's own, which BuildKit then asks without TLS, too. */
  readonly guardedPort: number;
  /** Only BuildKit knows it by that name, as the file says where it is; it is believed with certificates of that CA. */
  readonly named: { readonly hosts: string; readonly ca: TestCa };
  /** For the files of tests; it goes with the rest. */
  readonly folder: string;
  /** A copy of the sources, with secrets lying about. */
  readonly sources: string;
  /** With attestations, as it is published. Returns the digest of what was pushed. */
  publish(image: OurImage, signal: AbortSignal): Promise<string>;
  /** Without attestations, which take as long as all the rest. */
  publishPlain(image: OurImage, signal: AbortSignal): Promise<string>;
  /** Everything done again, without attestations. */
  rebuild(image: OurImage, signal: AbortSignal): Promise<string>;
};

/**
 * Registers hooks that start both, and stop them. Skips the tests where no image can be built. `name` is that of a registry
 * that the test itself starts, with TLS.
 */
export function useImages({ name = usualName } = {}): () => ImagesUnderTest {
  const stack = new AsyncDisposableStack();
  let state: ImagesUnderTest | undefined;
  const { signal } = new AbortController();
  before("start a builder and a registry", async function () {
    this.timeout(buildMs);
    const obstacle = await imagesObstacle(process.env);
    if (obstacle !== undefined) skipFor(this, obstacle);
    state = stack.use(await openImages(signal, name));
  });
  after("stop the builder and the registry", async function () {
    this.timeout(60_000);
    await stack.disposeAsync();
  });
  return () => {
    if (state === undefined) throw new Error("the builder is there from the first test on");
    return state;
  };
}

/** The same for who is no test. Rejects where no image can be built; disposing of it stops both. */
export async function openImages(
  signal: AbortSignal,
  name = usualName,
): Promise<ImagesUnderTest & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const parts = await prepareImages({ report: createReport() }, signal);
  const folder = await mkdtemp(path.join(tmpdir(), "images-"));
  stack.defer(() => rm(folder, { recursive: true, maxRetries: 5 }));
  const images = await start({ parts, folder, name }, stack, signal);
  const all = stack.move();
  return { ...images, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

async function start(
  from: { readonly parts: ImageParts; readonly folder: string; readonly name: string },
  stack: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<ImagesUnderTest> {
  const { parts, folder, name } = from;
  const below = async (part: string) => {
    await mkdir(path.join(folder, part));
    return path.join(folder, part);
  };
  const { registry: program } = parts;
  const registry = stack.use(await startRegistry({ program, folder: await below("registry") }, signal));
  const guardedPort = await freePort();
  const registries = [registry.host, `127.0.0.1:${guardedPort}`];
  const ca = await createTestCa();
  const named = { name, authority: path.join(folder, "authority.pem"), hosts: path.join(folder, "hosts") };
  await writeFile(named.authority, ca.pem);
  await cp("/etc/hosts", named.hosts);
  const buildkit = stack.use(
    await startBuildkit({ parts, folder: await below("buildkit"), registries, named }, signal),
  );
  const contexts = await layOutBases(parts, await below("bases"));
  const generatorFolder = await below("generator");
  const { host } = registry;
  const sbomGenerator = await pushSbomGenerator(
    buildkit,
    { parts, contexts, host, folder: generatorFolder },
    signal,
  );
  const copy = await copySources(await below("sources"));
  const build = async (
    image: OurImage,
    tag: string,
    more: { readonly sbomGenerator?: string; readonly noCache?: boolean },
    abort: AbortSignal,
  ) => {
    const dockerfile = path.join(copy, image, "Dockerfile");
    const reference = `${host}/${image}:${tag}`;
    const options = { dockerfile, folder: copy, reference, contexts, builderId, epoch, ...more };
    return await buildImage(buildkit, options, abort);
  };
  return {
    parts,
    registry,
    buildkit,
    contexts,
    sbomGenerator,
    guardedPort,
    named: { hosts: named.hosts, ca },
    folder,
    sources: copy,
    publish: (image, abort) => build(image, "published", { sbomGenerator }, abort),
    publishPlain: (image, abort) => build(image, "plain", {}, abort),
    rebuild: (image, abort) => build(image, "again", { noCache: true }, abort),
  };
}

async function copySources(folder: string): Promise<string> {
  for (const name of sources)
    await cp(path.join(repository, name), path.join(folder, name), { recursive: true });
  for (const name of secretFiles) {
    const file = path.join(folder, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, `TOKEN=${planted}\n`);
  }
  return folder;
}
