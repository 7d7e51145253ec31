import assert from "node:assert/strict";
import { before, describe, it } from "mocha";
import { needCluster } from "../support/cluster.ts";
import { builtExecutor } from "../support/images/executor-of.ts";
import { useImages } from "../support/images/use-images.ts";
import { untilNothingLeft } from "../support/kubernetes/pod-history.ts";
import type { Tenant } from "../support/kubernetes/tenant.ts";
import { useCluster } from "../support/kubernetes/use-cluster.ts";

const jobsMs = 240_000;

/** An image without a registry: one program with what it is linked to. */
const workflow = `
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

describe("a job with Docker in the executor's image, on a real cluster", function () {
  this.timeout(600_000);
  before("see whether there can be one", async function () {
    await needCluster(this);
  });
  const images = useImages();
  const cluster = useCluster({ executor: () => builtExecutor(images(), new AbortController().signal) });
  let tenant: Tenant;
  before("start the controller", async () => {
    tenant = await cluster.tenant({ name: "docker" });
    await cluster.start({ tenant });
  });

  it("B-90 B-92 builds and runs containers as the job's user, and leaves nothing", async () => {
    const run = await cluster.push("docker", workflow);
    const [job] = await run.jobs(undefined, jobsMs);
    assert.ok(job !== undefined);
    const log = await run.log(job);
    assert.equal(job.conclusion, "success", log.join("\n"));
    assert.match(log.join("\n"), /uid 2000 in \/workspace\/\S+, overlay2, /);
    for (const line of ["pod-docker-ok", "built-here"]) assert.ok(log.includes(line), log.join("\n"));
    await untilNothingLeft(cluster.platform.kubernetes, tenant.namespace);
  });
});
