import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, before, beforeEach, describe, it } from "mocha";
import { createSpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { onPath } from "../../scripts/peers/find-peer.ts";
import { type Registry, startRegistry } from "../../scripts/peers/images/start-registry.ts";
import { showBundle } from "../../scripts/peers/spire-api/bundle.ts";
import { type Spire, startSpire } from "../../scripts/peers/start-spire.ts";
import { eventually } from "../support/eventually.ts";
import { processesMentioning } from "../support/find-processes.ts";
import { startStalledUploads } from "../support/images/stalled-uploads.ts";
import { materialsOf } from "../support/images/attested.ts";
import { readPushed } from "../support/images/pushed-image.ts";
import { type RunningTokenService, startTokenService } from "../support/images/token-service.ts";
import { useImages } from "../support/images/use-images.ts";
import { skipFor } from "../support/needs-tools.ts";
import { createTestCa } from "../support/test-pki.ts";

const { signal } = new AbortController();
const script = path.join(import.meta.dirname, "../../scripts/publish-image");
const trustDomain = "example.org";
const publisher = `spiffe://${trustDomain}/ci/acme/runner/publish`;
const stranger = `spiffe://${trustDomain}/ci/acme/other/publish`;
const repository = "acme/controller";
const commit = "0123456789abcdef0123456789abcdef01234567";

/** Whether a program ends well. */
async function succeeds(program: string, args: readonly string[]): Promise<boolean> {
  const [code] = await once(spawn(program, args, { stdio: "ignore", timeout: 10_000 }), "exit");
  return code === 0;
}

describe("publish-image, with a real registry, BuildKit and SPIRE", () => {
  const images = useImages();
  const stack = new AsyncDisposableStack();
  let spire: Spire;
  let tokens: RunningTokenService;
  let registry: Registry;
  const at = (name: string) => path.join(images().folder, "publish", name);
  before("start SPIRE, and a registry that believes in its tokens", async function () {
    this.timeout(10 * 60_000);
    if ((await onPath("docker", process.env)) === undefined) skipFor(this, "docker is not on PATH");
    for (const name of ["", "spire", "registry", "bin", "memory", "docker/cli-plugins", "source"])
      await mkdir(at(name), { recursive: true });
    const { peers, registry: program } = images().parts;
    const spirePeers = { spireServer: peers["spire-server"], spireAgent: peers["spire-agent"] };
    spire = stack.use(await startSpire({ folder: at("spire"), trustDomain, peers: spirePeers }, signal));
    await symlink(peers["spire-agent"].binary, at("bin/spire-agent"));
    await symlink(peers.buildx.binary, at("docker/cli-plugins/docker-buildx"));
    const asked = { serverBinary: peers["spire-server"].binary, serverSocket: spire.serverSocket };
    for (const id of [publisher, stranger]) {
      const selectors = [`unix:uid:${process.geteuid?.() ?? 0}`];
      const entry = { id: path.basename(path.dirname(id)), spiffeId: parseSpiffeId(id), selectors };
      await createSpireEntries(asked).create({ ...entry, parentId: spire.parentId }, signal);
    }
    // The agent hears of entries some seconds later.
    const { binary: agent } = peers["spire-agent"];
    const fetchJwt = ["api", "fetch", "jwt", "-audience", "zot", "-socketPath", spire.agentSocket];
    for (const id of [publisher, stranger])
      await eventually(`the agent gives ${id}`, () => succeeds(agent, [...fetchJwt, "-spiffeID", id]));
    const bundle = await showBundle(asked, "spiffe", signal);
    const signer = await createTestCa();
    await writeFile(at("signer.pem"), signer.pem);
    const admitted = { admitted: publisher, repositories: [repository] };
    tokens = stack.use(await startTokenService({ signer, bundle, ...admitted }));
    const { realm, service, issuer } = tokens;
    const believed = { realm, service, issuer, certificate: at("signer.pem") };
    const port = images().guardedPort;
    registry = stack.use(
      await startRegistry({ program, folder: at("registry"), tokens: believed, port }, signal),
    );
  });
  after(() => stack.disposeAsync());
  beforeEach(async () => {
    await rm(at("source"), { recursive: true });
    await mkdir(at("source"));
    await writeFile(at("source/Dockerfile"), 'FROM debian\nCOPY hello /hello\nENTRYPOINT ["/hello"]\n');
    await writeFile(at("source/hello"), "hello\n");
  });

  const publish = (more: NodeJS.ProcessEnv = {}) => {
    const debian = images().contexts["debian"] ?? "";
    const child = spawn(script, ["--", `--build-context=debian=${debian}`], {
      cwd: at("source"),
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: `${at("bin")}:${process.env["PATH"] ?? ""}`,
        HOME: at("home"),
        TMPDIR: at("memory"),
        DOCKER_CONFIG: at("docker"),
        GITHUB_SHA: commit,
        GITHUB_STEP_SUMMARY: at("summary"),
        IMAGE_NAME: "controller",
        IMAGE_REPOSITORY: repository,
        IMAGE_DOCKERFILE: "Dockerfile",
        IMAGE_SBOM_GENERATOR: images().sbomGenerator,
        PUSH_REGISTRY: registry.host,
        PULL_REGISTRY: "pull.example",
        SPIRE_AGENT_SOCKET: spire.agentSocket,
        SOURCE_DATE_EPOCH: "1796083200",
        BUILDKIT_HOST: images().buildkit.address,
        CI_SPIFFE_ID: publisher,
        ...more,
      },
    });
    const ended = Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]);
    const outcome = ended.then(([[code], stdout, stderr]) => ({
      code: code as number | null,
      stdout,
      stderr,
    }));
    return { child, outcome };
  };
  const nothingLeft = async (said: string) => {
    assert.deepEqual(await readdir(at("memory")), []);
    assert.deepEqual(await readdir(at("docker")), ["cli-plugins"]);
    assert.deepEqual(processesMentioning(at("memory")), []);
    assert.doesNotMatch(said, /eyJ[\w-]+\.eyJ/, "a token is in the output");
  };
  const isThere = async (tag: string): Promise<number> => {
    const authorization = `Bearer ${await tokens.tokenToRead(repository)}`;
    const accept = "application/vnd.oci.image.index.v1+json";
    const url = `${registry.url}/v2/${repository}/manifests/${tag}`;
    const answer = await fetch(url, { headers: { authorization, accept } });
    await answer.text();
    return answer.status;
  };

  it("B-94 B-104 says clearly that a stranger's JWT-SVID is refused, and leaves nothing", async () => {
    const { code, stdout, stderr } = await publish({ CI_SPIFFE_ID: stranger }).outcome;
    assert.equal(code, 1, stderr);
    assert.equal(stdout, "");
    assert.match(stderr, /publish-image: cannot log in to 127\.0\.0\.1:\d+ as zot/);
    assert.equal(tokens.answers.at(-1), `${stranger} may not`);
    await nothingLeft(stderr);
    assert.equal(await isThere("main"), 404);
  });

  it("B-94 says clearly that the registry is down, and leaves nothing", async () => {
    await registry.stop();
    try {
      const { code, stdout, stderr } = await publish().outcome;
      assert.equal(code, 1, stderr);
      assert.equal(stdout, "");
      assert.match(stderr, /publish-image: cannot log in to 127\.0\.0\.1:\d+ as zot/);
      await nothingLeft(stderr);
    } finally {
      await registry.start(signal);
    }
  });

  it("B-94 obeys SIGTERM in the middle of a build, and leaves nothing", async () => {
    await writeFile(at("source/Dockerfile"), "FROM debian\nRUN echo has-begun; sleep 600\n");
    const { child, outcome } = publish();
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
    await eventually("it builds", () => said.includes("has-begun\n"));
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await outcome;
    assert.equal(code, 143, stderr);
    assert.equal(stdout, "");
    assert.match(stderr, /publish-image: ended by SIGTERM/);
    await nothingLeft(stderr);
    await eventually("the build has ended, too", () => processesMentioning("has-begun").length === 0);
  });

  it("B-94 obeys SIGTERM in the middle of the push, and leaves nothing, in the registry neither", async () => {
    await using stalled = await startStalledUploads(registry.url);
    const { child, outcome } = publish({ PUSH_REGISTRY: stalled.host });
    await eventually("it uploads", () => stalled.waiting() > 0);
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await outcome;
    assert.equal(code, 143, stderr);
    assert.equal(stdout, "");
    assert.match(stderr, /publish-image: pushing controller to /);
    assert.match(stderr, /publish-image: ended by SIGTERM/);
    await nothingLeft(stderr);
    await eventually("BuildKit uploads no more", () => stalled.waiting() === 0);
    assert.equal(await isThere("main"), 404);
  });

  it("B-94 B-104 pushes what it has built with SBOM and provenance, and says where it is", async () => {
    const { code, stdout, stderr } = await publish().outcome;
    assert.equal(code, 0, stderr);
    const [, digest = ""] =
      /^controller=pull\.example\/acme\/controller@(sha256:[0-9a-f]{64})\n$/.exec(stdout) ?? [];
    assert.notEqual(digest, "", stdout);
    assert.equal(tokens.answers.at(-1), "granted");
    for (const tag of ["main", `sha-${commit}`, digest]) assert.equal(await isThere(tag), 200, tag);
    const authorization = `Bearer ${await tokens.tokenToRead(repository)}`;
    const image = await readPushed(registry.url, repository, digest, { authorization });
    assert.deepEqual(image.config.Entrypoint, ["/hello"]);
    const types = image.statements.map(({ predicateType }) => predicateType).toSorted();
    assert.equal(types.length, 2);
    assert.match(types[0] ?? "", /^https:\/\/slsa\.dev\/provenance\//);
    assert.match(types[1] ?? "", /^https:\/\/spdx\.dev\/Document/);
    // Nobody has told BuildKit who builds.
    const materials = materialsOf(image, "").map((one) => one.digest);
    assert.ok(materials.includes(images().contexts["debian"]?.split("@")[1] ?? ""), materials.join(" "));
    assert.ok((await readFile(at("summary"), "utf8")).includes(`pull.example/${repository}@${digest}`));
    assert.ok((await readFile(at("source/controller-metadata.json"), "utf8")).includes(digest));
    await nothingLeft(stderr);
  });
});
