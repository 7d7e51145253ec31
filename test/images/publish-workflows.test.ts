import assert from "node:assert/strict";
import { after, before, describe, it } from "mocha";
import { needCluster } from "../support/cluster.ts";
import { materialsOf, packagesOf } from "../support/images/attested.ts";
import { builtExecutor } from "../support/images/executor-of.ts";
import { createPublisher, type Publisher, type PublishRun } from "../support/images/publisher.ts";
import { type PublishSite, startPublishSite } from "../support/images/publish-site.ts";
import { pushBases } from "../support/images/push-bases.ts";
import { readPushed } from "../support/images/pushed-image.ts";
import { useImages } from "../support/images/use-images.ts";
import { trustDomain } from "../support/kubernetes/cluster-platform.ts";
import { untilNothingLeft } from "../support/kubernetes/pod-history.ts";
import type { Tenant } from "../support/kubernetes/tenant.ts";
import { useCluster } from "../support/kubernetes/use-cluster.ts";

const { signal } = new AbortController();
/** As the workflows have them. */
const pushRegistry = "zot-push.ad.ddupan.top";
const pullRegistry = "zot.ad.ddupan.top";
const repositoryOf = (image: string) => `panxiao81/gitea-dynamic-runner-${image}`;
const jobsMs = 400_000;

/** An image without a registry: one program with what it is linked to. */
const dockerWorkflow = `
on: push
jobs:
  docker:
    runs-on: [self-hosted, pod]
    steps:
      - run: echo "uid $(id -u) in $PWD, $(docker info --format '{{.Driver}}'), $(stat -f -c %T /var/lib/docker)"
      - run: mountpoint /var/lib/docker
      - run: |
          tar -C / -ch $(ldd /bin/echo | grep -o '/[^ ]*') bin/echo 2>/dev/null | docker import - tiny >/dev/null
          docker run --rm tiny /bin/echo pod-docker-ok
      - run: |
          printf 'FROM tiny\\nCMD ["/bin/echo", "built-here"]\\n' | docker build --quiet --tag built -
          docker run --rm built
`;

describe("jobs in the executor's image, on a real cluster", function () {
  this.timeout(1_200_000);
  before("see whether there can be one", async function () {
    await needCluster(this);
  });
  const images = useImages({ name: pushRegistry });
  const cluster = useCluster({ executor: () => builtExecutor(images(), signal) });
  const stack = new AsyncDisposableStack();
  let site: PublishSite;
  let tenant: Tenant;
  let publisher: Publisher;
  before("start a registry that believes in jobs, and the controller", async () => {
    const admitted = `spiffe://${trustDomain}/ci/${cluster.platform.admin.user}/own/publish`;
    const repositories = ["controller", "runner"].map(repositoryOf);
    site = await startPublishSite(
      { images: images(), cluster, name: pushRegistry, admitted, repositories },
      stack,
    );
    const bases = await pushBases(images(), signal);
    const variables = { BUILDKIT_HOST: site.buildkit, IMAGE_SBOM_GENERATOR: images().sbomGenerator };
    publisher = createPublisher(cluster.platform.admin, { bases, variables });
    tenant = await cluster.tenant({ name: "publish", ...site.pods });
    const at = `/api/v1/namespaces/${tenant.namespace}/configmaps`;
    await cluster.platform.kubernetes.api.ensure(at, site.configMap, signal);
    await cluster.start({ tenant });
  });
  after(() => stack.disposeAsync());

  const authorization = async (image: string) => ({
    authorization: `Bearer ${await site.tokens.tokenToRead(repositoryOf(image))}`,
  });
  /** Of the index that the tag names; undefined where there is no such tag. */
  const digestOf = async (image: string, tag: string): Promise<string | undefined> => {
    const accept = "application/vnd.oci.image.index.v1+json";
    const answer = await fetch(`${site.registry.url}/v2/${repositoryOf(image)}/manifests/${tag}`, {
      method: "HEAD",
      headers: { ...(await authorization(image)), accept },
    });
    return answer.headers.get("docker-content-digest") ?? undefined;
  };
  const published = async (image: string, { sha, job, log }: PublishRun, packages: readonly string[]) => {
    assert.equal(job.conclusion, "success", log.slice(-4_000));
    assert.doesNotMatch(log, /eyJ[\w-]+\.eyJ/, "a token is in the log");
    const reference = `${image}=${pullRegistry}/${repositoryOf(image)}@sha256:`;
    const [digest, ...more] = log.split("\n").flatMap((line) => line.split(` ${reference}`).slice(1));
    assert.deepEqual([digest?.length, more], [64, []], log.slice(-4_000));
    for (const tag of ["main", `sha-${sha}`])
      assert.equal(await digestOf(image, tag), `sha256:${digest}`, tag);
    const { url } = site.registry;
    const pushed = await readPushed(url, repositoryOf(image), "main", await authorization(image));
    const listed = [...packagesOf(pushed)];
    for (const start of packages)
      assert.ok(
        listed.some((one) => one.startsWith(start)),
        `${start} of ${listed.length} packages`,
      );
    const materials = materialsOf(pushed, "").map((one) => one.digest);
    for (const stage of ["debian", "node"])
      assert.ok(materials.includes(publisher.bases[stage]?.split("@")[1] ?? ""), stage);
  };

  it("B-90 B-92 builds and runs containers as the job's user, and leaves nothing", async () => {
    const run = await cluster.push("docker", dockerWorkflow);
    const [job] = await run.jobs(undefined, jobsMs);
    assert.ok(job !== undefined);
    const log = await run.log(job);
    assert.equal(job.conclusion, "success", log.join("\n"));
    assert.match(log.join("\n"), /uid 2000 in \/workspace\/\S+, overlay2, /);
    for (const line of ["pod-docker-ok", "built-here"]) assert.ok(log.includes(line), log.join("\n"));
    await untilNothingLeft(cluster.platform.kubernetes, tenant.namespace);
  });

  it("B-94 B-96 B-104 our workflows publish both images, of a push and by hand, as who the job is", async () => {
    const repository = await publisher.repository("own");
    const runner = await publisher.byHand(repository, "publish-runner-image.yml");
    const controller = await publisher.push(repository, "publish-images.yml", "controller/README.md");
    await published("controller", await publisher.ended(repository, controller), ["pkg:npm/pino@"]);
    await published("runner", await publisher.ended(repository, runner), [
      "pkg:deb/debian/git@",
      "pkg:npm/zod@",
    ]);
    assert.ok(!site.tokens.answers.some((answer) => answer.endsWith(" may not")));
    await untilNothingLeft(cluster.platform.kubernetes, tenant.namespace);
  });

  it("B-94 B-104 the same job of another repository is refused before it builds, and changes no image", async () => {
    const old = await digestOf("controller", "main");
    assert.ok(old !== undefined);
    const repository = await publisher.repository("other");
    const run = await publisher.byHand(repository, "publish-images.yml");
    const { sha, job, log } = await publisher.ended(repository, run);
    assert.equal(job.conclusion, "failure");
    assert.ok(log.includes(`publish-image: cannot log in to ${pushRegistry} as zot`), log);
    assert.ok(!log.includes("publish-image: building"), log);
    assert.doesNotMatch(log, /eyJ[\w-]+\.eyJ/, "a token is in the log");
    const stranger = `spiffe://${trustDomain}/ci/${repository.owner}/other/publish`;
    assert.equal(site.tokens.answers.at(-1), `${stranger} may not`);
    assert.deepEqual(
      [await digestOf("controller", "main"), await digestOf("controller", `sha-${sha}`)],
      [old, undefined],
    );
  });
});
