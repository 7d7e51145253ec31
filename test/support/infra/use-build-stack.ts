import { X509Certificate } from "node:crypto";
import { cp, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { getCACertificates } from "node:tls";
import { before } from "mocha";
import { connect } from "nats";
import { pushBases } from "../images/push-bases.ts";
import { type ImagesUnderTest, useImages } from "../images/use-images.ts";
import { useNats } from "../nats.ts";
import { repositoryStack } from "./repository-stack.ts";
import { type KubernetesUnderTest, useKubernetes } from "./use-kubernetes.ts";
import { type PulumiUnderTest, type Stack, usePulumi } from "./use-pulumi.ts";
import { planted } from "./use-queue-stack.ts";

/** What a person's Docker has stored for the registry; it is of use there only. */
export const registryPassword = "planted-password-of-the-registry";
/** Where the cluster pulls from. */
export const pullRegistry = "registry.example.org";

/** Images that a stack may begin with, by the names that its settings have for them. */
export type Bases = Readonly<Record<"debian" | "node" | "giteaRunner", string>>;

export type BuildStack = {
  readonly images: ImagesUnderTest;
  readonly kubernetes: KubernetesUnderTest;
  readonly pulumi: PulumiUnderTest;
  /** `prod`, in a project whose sources are a copy. */
  readonly stack: Stack;
  readonly bases: Bases;
  /** Says anew what the stack's file says: the repository's own, with images that are built here, and changes to these settings. */
  readonly configure: (changes?: Readonly<Record<string, unknown>>) => Promise<void>;
  /** Names of streams. */
  readonly streams: () => Promise<readonly string[]>;
};

/** A builder whose BuildKit is not there. */
export const lostBuilder = "lost";

/** In the copy of the sources of `useImages`, what the project has not got yet; secrets lie about among them. */
const copied = [
  ".env",
  ".npmrc",
  "controller",
  "package.json",
  "package-lock.json",
  "proto",
  "runner-image",
  "scripts",
];
/** The executor's own takes minutes, and is built in `runner-image.test.ts`; its ignore file stays. */
const smallRunner = `ARG GITEA_RUNNER_IMAGE=gitea/runner
FROM \${GITEA_RUNNER_IMAGE} AS gitea-runner
FROM scratch
COPY --from=gitea-runner /usr/local/bin/gitea-runner /
COPY scripts/setup-job-docker /
ENTRYPOINT ["/gitea-runner"]
`;
const { signal } = new AbortController();
const deadlineMs = 20 * 60_000;

/**
 * Registers hooks that make a builder, a registry with what images begin with, an API server, a NATS server, an engine, and a
 * stack whose images are built, not brought up: the controller's as it is, and a small one instead of the executor's.
 */
export function useBuildStack(): BuildStack {
  const images = useImages();
  const kubernetes = useKubernetes(["gitea-dynamic-runner"]);
  const docker = () => path.join(images().folder, "docker");
  const pulumi = usePulumi({
    providers: ["pulumi-resource-kubernetes", "pulumi-resource-docker-build"],
    group: "images",
    deadlineMs,
    besides: () => ({ ...kubernetes.environment(), DOCKER_CONFIG: docker() }),
  });
  const nats = useNats({ user: "ci-runner", password: planted.natsPassword });
  let state: { readonly stack: Stack; readonly bases: Bases } | undefined;
  const made = () => {
    if (state === undefined) throw new Error("the stack of this test is not made yet");
    return state;
  };
  const configure: BuildStack["configure"] = (changes = {}) => {
    const ca = ownAuthorities();
    const built = {
      source: "build",
      pushRegistry: images().registry.host,
      pullRegistry,
      builder: "images",
      sbomGenerator: images().sbomGenerator,
      ...(ca === "" ? {} : { ca }),
      bases: made().bases,
    };
    return made().stack.configure(repositoryStack("prod", nats.url, { images: { ...built, ...changes } }));
  };
  before("make a stack that builds", async function () {
    this.timeout(300_000);
    await writeDockerSettings(docker(), images());
    const bases = basesOf(await pushBases(images(), signal));
    const stack = await pulumi.stack("prod", { program: "platform", secrets: planted });
    for (const name of copied)
      await cp(path.join(images().sources, name), path.join(stack.folder, name), { recursive: true });
    await writeFile(path.join(stack.folder, "runner-image/Dockerfile"), smallRunner);
    state = { stack, bases };
    await configure();
  });
  return {
    get images() {
      return images();
    },
    kubernetes,
    pulumi,
    get stack() {
      return made().stack;
    },
    get bases() {
      return made().bases;
    },
    configure,
    streams: async () => {
      const { url: servers, user, password: pass } = nats;
      const connection = await connect({ servers, user, pass });
      const server = await connection.jetstreamManager();
      const names = await Array.fromAsync(server.streams.list(), ({ config }) => config.name);
      await connection.close();
      return names;
    },
  };
}

function basesOf({ debian, node, "gitea-runner": giteaRunner }: Readonly<Record<string, string>>): Bases {
  if (debian === undefined || node === undefined || giteaRunner === undefined)
    throw new Error("an image that ours begin with was not pushed");
  return { debian, node, giteaRunner };
}

/** What this machine trusts besides what Node trusts by itself: a whole bundle is more than a program can be started with. */
function ownAuthorities(): string {
  const printOf = (certificate: string) => new X509Certificate(certificate).fingerprint256;
  const bundled = new Set(getCACertificates("bundled").map(printOf));
  return getCACertificates("extra")
    .filter((one) => !bundled.has(printOf(one)))
    .join("\n");
}

/** As `docker login` and `docker buildx create --driver remote` leave them. */
async function writeDockerSettings(folder: string, { buildkit, registry }: ImagesUnderTest): Promise<void> {
  const builders = path.join(folder, "buildx", "instances");
  await mkdir(builders, { recursive: true });
  const auth = Buffer.from(`publisher:${registryPassword}`).toString("base64");
  const login = { auths: { [registry.host]: { auth } } };
  await writeFile(path.join(folder, "config.json"), JSON.stringify(login), { mode: 0o600 });
  const addresses = { images: buildkit.address, [lostBuilder]: `unix://${path.join(folder, "nobody.sock")}` };
  for (const [name, address] of Object.entries(addresses)) {
    const node = { Name: `${name}0`, Endpoint: address };
    const record = { Name: name, Driver: "remote", Nodes: [node], Dynamic: false };
    await writeFile(path.join(builders, name), JSON.stringify(record));
  }
}
