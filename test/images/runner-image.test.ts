import assert from "node:assert/strict";
import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import { before, describe, it } from "mocha";
import { runCommand } from "../../scripts/peers/run-command.ts";
import { eventually } from "../support/eventually.ts";
import { materialsOf, packagesOf } from "../support/images/attested.ts";
import { useBuiltImage } from "../support/images/built-image.ts";
import type { PushedImage } from "../support/images/pushed-image.ts";
import { startContainer } from "../support/images/run-bundle.ts";
import { textsIn } from "../support/images/unpack.ts";
import { planted, useImages } from "../support/images/use-images.ts";

const { signal } = new AbortController();
const buildMs = 60 * 60_000;
const megabyte = 1_000_000;
const runner = 2000;

describe("the executor's image", () => {
  const images = useImages();
  const built = useBuiltImage(images, "runner-image", buildMs);
  let image: PushedImage;
  let layers: readonly string[];
  let root: string;
  before("look at it", () => {
    ({ image, layers, root } = built());
  });

  /** What a shell in it prints, with the rights and the groups of a user of the image. */
  const inside = async (user: string, script: string): Promise<string> => {
    const become = ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--init-groups"];
    const args = [root, ...become, "/bin/bash", "-c", script];
    const environment = Object.fromEntries(image.config.Env.map((line) => line.split(/=(.*)/s).slice(0, 2)));
    const command = { program: "/usr/sbin/chroot", args, environment, deadline: 60_000 };
    return (await runCommand(command, signal)).trim();
  };
  const about = async (file: string) => {
    const { mode, uid, gid } = await stat(path.join(root, file));
    return { mode: (mode & 0o7777).toString(8), uid, gid };
  };

  it("B-104 has an SBOM about it, with packages of npm, of Debian and of Go", () => {
    const packages = packagesOf(image);
    const versions = images().parts.peers;
    const has = (start: string) =>
      assert.ok(
        [...packages].some((url) => url.startsWith(start)),
        `${start} of ${packages.size} packages`,
      );
    has("pkg:npm/%40connectrpc/connect-node@");
    has("pkg:npm/zod@");
    has("pkg:deb/debian/docker.io@");
    has("pkg:deb/debian/git@");
    has(`pkg:golang/gitea.com/gitea/runner@v${versions["gitea-runner"].version}`);
    has(`pkg:golang/github.com/spiffe/spire@v${versions["spire-agent"].version}`);
    has("pkg:golang/google.golang.org/grpc@");
    // The controller's alone.
    assert.ok(![...packages].some((url) => url.startsWith("pkg:npm/%40kubernetes/client-node@")));
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
    const begun = performance.now();
    const again = await images().rebuild("runner-image", signal);
    console.log(`      after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    assert.equal(again, image.digest);
  });

  it("holds no more than a node pulls within a minute", () => {
    console.log(`      ${(image.size / megabyte).toFixed(1)} MB in ${image.layers.length} layers`);
    assert.ok(image.size <= 400 * megabyte);
  });

  it("has none of what lies about in a checkout, in no layer and not in its history", async () => {
    assert.deepEqual(await textsIn(layers, [planted]), []);
    assert.ok(!image.configText.includes(planted));
    // The search does find what is there.
    assert.deepEqual(await textsIn(layers, ["gitea-dynamic-runner"]), ["gitea-dynamic-runner"]);
  });

  it("B-90 has every program where it belongs, and it runs as the job's user", async () => {
    const { peers } = images().parts;
    const version = async (command: string) => await inside("runner", `${command} 2>&1`);
    const has = async (command: string, expected: string) => {
      const said = await version(command);
      assert.ok(said.includes(expected), `${command}: ${said}`);
    };
    await has("/usr/local/bin/gitea-runner --version", peers["gitea-runner"].version);
    await has("/opt/spire/bin/spire-agent --version", peers["spire-agent"].version);
    await has("spire-agent --version", peers["spire-agent"].version);
    await has("docker buildx version", peers.buildx.version);
    await has("node --version", "v24.");
    await has("docker --version", "Docker version");
    await has("dockerd --version", "Docker version");
    await has("git --version", "git version");
    await has("jq --version", "jq-");
    await has("command -v gitea-dynamic-runner", "/usr/local/bin/gitea-dynamic-runner");
    await has("command -v gitea-opensandbox-runner", "/usr/local/bin/gitea-opensandbox-runner");
    await has("gitea-job-started --help", "Usage: gitea-job-started");
    const task = "/opt/opensandbox/bootstrap.sh gitea-opensandbox-runner --help";
    await has(task, "Usage: gitea-opensandbox-runner");
    await has("command -v setup-job-docker", "/usr/local/bin/setup-job-docker");
    for (const name of ["gitea-job-started", "setup-job-docker"])
      assert.deepEqual(await about(`usr/local/libexec/${name}`), { mode: "755", uid: 0, gid: 0 });
    const said = await inside("runner", "gitea-dynamic-runner 2>&1 || true");
    assert.match(said, /bootstrap stopped.*|CI_ASSIGNMENT_ID is missing/);
  });

  it("B-90 knows the job's user, who is in the group of Docker and gets root without a password", async () => {
    assert.equal(
      await inside("runner", "id -u; id -g; id -nG; echo $HOME"),
      "2000\n2000\nrunner docker\n/home/runner",
    );
    assert.equal(await inside("runner", "sudo -n id -u"), "0");
    assert.deepEqual(await about("etc/sudoers.d/runner"), { mode: "440", uid: 0, gid: 0 });
    assert.equal((await about("home/runner")).uid, runner);
    for (const folder of ["data", "workspace"])
      assert.deepEqual(await about(folder), { mode: "755", uid: runner, gid: runner });
    assert.deepEqual(Object.keys(image.config.Volumes), ["/data"]);
  });

  it("B-90 configures gitea-runner for the host, with the hook, and without labels of its own", async () => {
    const text = await readFile(path.join(root, "etc/gitea-runner/config.yaml"), "utf8");
    assert.match(text, /job_started: \/usr\/local\/bin\/gitea-job-started/);
    assert.match(text, /workdir_parent: \/workspace/);
    assert.doesNotMatch(text, /labels:/);
    assert.equal(image.config.Entrypoint.at(-1), "/usr/local/bin/gitea-dynamic-runner");
  });

  it("obeys a SIGTERM that comes before Node has begun", async () => {
    const environment = {
      CI_ASSIGNMENT_ID: "gitea-task-1",
      CI_BACKEND: "pod",
      CI_RUNNER_CAPABILITY: "nothing",
      CI_SPIFFE_ID: "spiffe://example.org/ci/owner/repository/job",
      RUNNER_FACADE_URL: "https://facade.example:8443",
      RUNNER_FACADE_SPIFFE_ID: "spiffe://example.org/controller",
      // Nobody is there: it waits.
      SPIFFE_ENDPOINT_SOCKET: "unix:///run/spire/agent-sockets/spire-agent.sock",
    };
    const { folder } = images();
    const options = { config: image.config, root, folder, environment, user: runner };
    await using container = await startContainer(options);
    await eventually("it has a first process", () =>
      container.kill("TERM").then(
        () => true,
        () => false,
      ),
    );
    assert.match(await container.process.exited, /^exit code (1|143)$/);
  });
});
