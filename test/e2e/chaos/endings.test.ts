import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, before, describe, it } from "mocha";
import { createLane } from "../../support/lane.ts";
import type { WorkflowJob } from "../../../scripts/peers/gitea-api/runs.ts";
import { signalGroup } from "../../../scripts/peers/process-group.ts";
import { cancelRun, logIn, type WebSession } from "../../../scripts/peers/gitea-api/web-session.ts";
import { onlyBootstrap } from "../../support/chaos/executor-main.ts";
import { type Gate, gateIn } from "../../support/chaos/gates.ts";
import { type GiteaProxy, startGiteaProxy } from "../../support/chaos/gitea-proxy.ts";
import { scaledTimes } from "../../support/chaos/scaled-times.ts";
import { useChaos } from "../../support/chaos/use-chaos.ts";
import { eventually } from "../../support/eventually.ts";
import { beginWorkload } from "../../support/run-workload.ts";
import type { Hand } from "../../support/workload.ts";

const soon = () => AbortSignal.timeout(100_000);

/** A bootstrap says every 10 s that it lives, whatever the scale, and a busy machine may hear of it later. */
const silenceMs = 25_000;

/** A job that says that it runs, and goes on when it may. */
const gated = (begun: Gate, end: Gate) => `
on: push
jobs:
  gated:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          echo "it runs"
          ${begun.open}
          ${end.wait}
          echo "it may go on"
`;

/** A job that never ends, and whose action has something left to do after it for `seconds`. */
const withPostStep = (begun: Gate, wound: Gate, seconds: number) => ({
  ".gitea/actions/slow/action.yml": `
name: Slow
description: Takes its time when the job ends
runs:
  using: node20
  main: main.js
  post: post.js
`,
  ".gitea/actions/slow/main.js": "",
  ".gitea/actions/slow/post.js": `
require("node:child_process").execSync("sleep ${seconds}; ${wound.open}");
console.log("wound up");
`,
  ".gitea/workflows/test.yml": `
on: push
jobs:
  gated:
    runs-on: [self-hosted, pod]
    steps:
      - env:
          TOKEN: \${{ secrets.GITHUB_TOKEN }}
        run: |
          git init -q -b main .
          git fetch -q --depth 1 "\${GITHUB_SERVER_URL/:\\/\\//://job:$TOKEN@}/$GITHUB_REPOSITORY" "$GITHUB_SHA"
          git checkout -q FETCH_HEAD
      - uses: ./.gitea/actions/slow
      - run: |
          ${begun.open}
          exec sleep 300
`,
});

describe("the end of a job and of its controller", function () {
  this.timeout(120_000);
  const real = useChaos({ sizes: [1], controller: { POD_CAPACITY: "1" } });
  let proxy: GiteaProxy;
  let session: WebSession;
  before("start a proxy and log in", async () => {
    proxy = await startGiteaProxy(real.platform.gitea.url);
    session = await logIn(real.platform.admin, soon());
  });
  after(() => proxy[Symbol.asyncDispose]());

  const begin = (name: string, files: Readonly<Record<string, string>>): Promise<Hand> =>
    beginWorkload(
      { name: "end", admin: real.platform.admin, session, making: createLane() },
      { name, files },
      soon(),
    );
  const gates = (name: string) =>
    [gateIn(real.shared, `${name}-begun`), gateIn(real.shared, `${name}-end`)] as const;
  const completed = (jobs: readonly WorkflowJob[]) =>
    jobs.length > 0 && jobs.every(({ status }) => status === "completed");
  const onlyJob = async (hand: Hand) => {
    const [job] = await hand.jobs(await hand.newestRun(), completed);
    assert.ok(job !== undefined);
    return job;
  };

  it("stores the task of a fetch that was held when SIGTERM came, and the next controller runs it", async () => {
    await real.start({ GITEA_URL: proxy.url });
    proxy.holdFetches();
    await eventually("all fetches are held", () => proxy.heldFetches() === 2);
    const seen = real.lines.length;
    const controller = real.platform.controller();
    controller.signal("SIGTERM");
    const batch = await real.numbered.dispatch(1);
    proxy.release();
    assert.equal(await controller.exited, "exit code 0");
    const said = real.lines.slice(seen).map(({ msg }) => msg);
    assert.equal(said.filter((msg) => msg === "task stored").length, 1);
    assert.deepEqual(await batch.begun(), []);
    await real.start();
    await batch.succeeded(await batch.over());
    await real.nothingLeft();
  });

  it("delivers a stored result whose executor has died, once Gitea is there again", async () => {
    await real.start({ GITEA_URL: proxy.url });
    const [begun, end] = gates("stored");
    const hand = await begin("stored", { ".gitea/workflows/test.yml": gated(begun, end) });
    await begun.opened();
    proxy.goDownAtResult();
    // The bootstrap may end by itself as soon as its result is stored: what is asked for is that it is gone.
    const bootstrap = await onlyBootstrap(real.platform);
    const seen = real.lines.length;
    await end.unlock();
    await eventually("the job is over and Gitea is down", () => proxy.isDown());
    signalGroup(bootstrap, "SIGKILL");
    const isNoticed = () => real.lines.slice(seen).some(({ msg }) => msg === "executor ended");
    await eventually("its executor has ended", isNoticed);
    proxy.up();
    const job = await onlyJob(hand);
    assert.equal(job.conclusion, "success");
    const rows = (await hand.log(job)).filter((row) => row === "it runs" || row === "it may go on");
    assert.deepEqual(rows, ["it runs", "it may go on"]);
    await real.nothingLeft();
  });

  it("fails a job whose bootstrap is stopped after the claim, and says that it was silent", async () => {
    await real.start({ RUNNER_TIMES: scaledTimes({ silenceMs }) });
    const [begun, end] = gates("silent");
    const hand = await begin("silent", { ".gitea/workflows/test.yml": gated(begun, end) });
    await begun.opened();
    process.kill(await onlyBootstrap(real.platform), "SIGSTOP");
    const job = await onlyJob(hand);
    assert.equal(job.conclusion, "failure");
    assert.match((await hand.log(job)).join("\n"), /Reason: silent\./);
    await real.nothingLeft();
  });

  it("lets a cancelled job's last steps end, which take longer than a finished one may linger", async () => {
    await real.start();
    const [begun, wound] = gates("post");
    const hand = await begin("post", withPostStep(begun, wound, 6));
    await begun.opened();
    await cancelRun(session, hand.repository, await hand.newestRun(), soon());
    const job = await onlyJob(hand);
    assert.equal(job.conclusion, "cancelled");
    assert.ok(existsSync(wound.file), "its last step was cut short");
    await eventually("the last row", async () => (await hand.log(job)).includes("wound up"));
    await real.nothingLeft();
  });
});
