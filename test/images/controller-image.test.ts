import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { before, describe, it } from "mocha";
import { z } from "zod";
import { freePort } from "../../scripts/peers/free-port.ts";
import { materialsOf, packagesOf } from "../support/images/attested.ts";
import { useBuiltImage } from "../support/images/built-image.ts";
import type { PushedImage } from "../support/images/pushed-image.ts";
import { startContainer } from "../support/images/run-bundle.ts";
import { textsIn } from "../support/images/unpack.ts";
import { planted, useImages } from "../support/images/use-images.ts";
import { eventually } from "../support/eventually.ts";

const { signal } = new AbortController();
const buildMs = 30 * 60_000;
const megabyte = 1_000_000;
const manifest = z.object({ dependencies: z.record(z.string(), z.string()), version: z.string() });

describe("the controller's image", () => {
  const images = useImages();
  const built = useBuiltImage(images, "controller", buildMs);
  let image: PushedImage;
  let layers: readonly string[];
  let root: string;
  before("look at it", () => {
    ({ image, layers, root } = built());
  });

  it("B-104 has an SBOM about it, with packages of npm and of Debian", async () => {
    const packages = packagesOf(image);
    const text = await readFile(path.join(images().sources, "package.json"), "utf8");
    for (const [name, version] of Object.entries(manifest.parse(JSON.parse(text)).dependencies)) {
      const url = `pkg:npm/${name.replace("@", "%40")}@${version}`;
      assert.ok(packages.has(url), `${url} of ${packages.size} packages`);
    }
    const debian = [...packages].filter((url) => url.startsWith("pkg:deb/debian/"));
    assert.ok(debian.some((url) => url.startsWith("pkg:deb/debian/tini@")));
    assert.ok(!packages.has("pkg:npm/mocha@12.0.3"), "a package that is for development only");
  });

  it("B-104 has a provenance about it, which names what it was made of by digest", () => {
    const materials = materialsOf(image);
    for (const stage of ["debian", "node"]) {
      const digest = images().contexts[stage]?.split("@")[1];
      assert.ok(
        materials.some((one) => one.digest === digest),
        `${stage} ${digest} of ${JSON.stringify(materials)}`,
      );
    }
  });

  it("is the same again, byte for byte, when everything is done again", async function () {
    this.timeout(buildMs);
    const again = await images().rebuild("controller", signal);
    assert.equal(again, image.digest);
  });

  it("holds no more than a cluster pulls in a moment", () => {
    console.log(`      ${(image.size / megabyte).toFixed(1)} MB in ${image.layers.length} layers`);
    assert.ok(image.size <= 120 * megabyte);
  });

  it("has none of what lies about in a checkout, in no layer and not in its history", async () => {
    assert.deepEqual(await textsIn(layers, [planted]), []);
    assert.ok(!image.configText.includes(planted));
    // The search does find what is there.
    assert.deepEqual(await textsIn(layers, ["gitea-dynamic-runner"]), ["gitea-dynamic-runner"]);
  });

  it("runs as a user that is a number and not root, and says what it is", () => {
    assert.equal(image.config.User, "65532:65532");
    assert.equal(image.config.Labels["org.opencontainers.image.title"], "gitea-dynamic-runner controller");
    assert.equal(image.config.Labels["org.opencontainers.image.licenses"], "Apache-2.0");
  });

  it("answers its health pages with a read-only root and without capabilities, and ends on SIGTERM", async () => {
    const port = await freePort();
    await using container = await startContainer(await settings(port));
    await eventually("it is alive", async () => (await page(port, "livez")) === 200);
    // Neither NATS nor an identity is there.
    assert.equal(await page(port, "readyz"), 503);
    await container.kill("TERM");
    assert.equal(await container.process.exited, "exit code 0");
  });

  it("obeys a SIGTERM that comes before Node has begun", async () => {
    await using container = await startContainer(await settings(await freePort()));
    await eventually("it has a first process", () =>
      container.kill("TERM").then(
        () => true,
        () => false,
      ),
    );
    assert.match(await container.process.exited, /^exit code (0|143)$/);
  });

  /** As infra's `controllerEnvironment` has it, with nobody there. */
  async function settings(port: number) {
    const { folder } = images();
    const secrets = path.join(folder, "secrets");
    const account = path.join(folder, "account");
    await mkdir(secrets, { recursive: true });
    await mkdir(account, { recursive: true });
    for (const name of ["token", "password"]) await writeFile(path.join(secrets, name), "nothing");
    await writeFile(path.join(secrets, "keys"), "k".repeat(43));
    for (const name of ["token", "namespace", "ca.crt"]) await writeFile(path.join(account, name), "nothing");
    const environment = {
      COMPONENTS: "scheduler,pod-worker",
      GITEA_URL: "http://127.0.0.1:1",
      GITEA_RUNNER_UUID: "00000000-0000-4000-8000-000000000000",
      GITEA_RUNNER_TOKEN_FILE: "/etc/runner/secrets/token",
      NATS_URL: "nats://127.0.0.1:1",
      NATS_USER: "ci",
      NATS_PASSWORD_FILE: "/etc/runner/secrets/password",
      TRUST_DOMAIN: "example.org",
      SPIFFE_ENDPOINT_SOCKET: "unix:///run/spire/agent-sockets/spire-agent.sock",
      RUNNER_FACADE_LISTEN: "127.0.0.1:0",
      RUNNER_FACADE_URL: "https://facade.example:8443",
      RUNNER_FACADE_SPIFFE_ID: "spiffe://example.org/controller",
      CAPABILITY_KEY_FILE: "/etc/runner/secrets/keys",
      CONTROLLER_NAMESPACE: "gitea-runner",
      HOSTNAME: "controller-0",
      HEALTH_LISTEN: `127.0.0.1:${port}`,
      KUBERNETES_SERVICE_HOST: "127.0.0.1",
      KUBERNETES_SERVICE_PORT: "1",
      POD_EXECUTOR_IMAGE: `registry.example/executor@sha256:${"0".repeat(64)}`,
      SPIRE_AGENT_ID: "spiffe://example.org/spire/agent/{nodeUid}",
    };
    const folders = {
      "/etc/runner/secrets": secrets,
      "/var/run/secrets/kubernetes.io/serviceaccount": account,
    };
    return { config: image.config, root, folder, environment, folders };
  }
});

/** The status of one of its pages; 0 where nobody answers. */
async function page(port: number, name: string): Promise<number> {
  const url = `http://127.0.0.1:${port}/${name}`;
  return await fetch(url, { signal: AbortSignal.timeout(2_000) }).then(
    async (answer) => {
      await answer.text();
      return answer.status;
    },
    () => 0,
  );
}
