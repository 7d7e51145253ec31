import assert from "node:assert/strict";
import { after, before, describe, it } from "mocha";
import { registerRunner } from "../../../scripts/peers/gitea-api/register-runner.ts";
import { type Gate, gateIn } from "../../support/chaos/gates.ts";
import { scaledTimes } from "../../support/chaos/scaled-times.ts";
import { useChaos } from "../../support/chaos/use-chaos.ts";
import { fetchAndForget } from "../../support/fetch-and-forget.ts";
import type { PushedRun } from "../../support/push-run.ts";

/** Gitea ends a task of which it has heard nothing for so long; a bootstrap says every 10 s that it lives … */
const zombieSeconds = 25;
/** … and one that takes longer than this from the fetch on. */
const endlessSeconds = 120;
/** Of that, this much is kept for Gitea's own clock … */
const marginSeconds = 5;
/** … and less than this is not worth a start. The job that holds the pool is older: so much is left to it to end well. */
const minimumSeconds = 45;

const workflow = (runsOn: string, script: string) => `
on: push
jobs:
  one:
    runs-on: [${runsOn}]
    steps:
      - run: |
          ${script}
`;
const job = (backend: string, script: string) => workflow(`self-hosted, ${backend}`, script);
const holding = (backend: string, begun: Gate, end: Gate) =>
  job(backend, `${begun.open}\n          ${end.wait}`);

describe("a job that waits behind a full pool, with a Gitea of little patience", function () {
  this.timeout(180_000);
  const stop = new AbortController();
  const real = useChaos({
    sizes: [],
    controller: {
      POD_CAPACITY: "1",
      VM_CAPACITY: "1",
      RUNNER_TIMES: scaledTimes({
        endlessMs: endlessSeconds * 1_000,
        endlessMarginMs: marginSeconds * 1_000,
        minimumRunMs: minimumSeconds * 1_000,
      }),
    },
    giteaSettings: {
      actions: {
        ENABLED: "true",
        ZOMBIE_TASK_TIMEOUT: `${zombieSeconds}s`,
        ENDLESS_TASK_TIMEOUT: `${endlessSeconds}s`,
      },
      "cron.stop_zombie_tasks": { ENABLED: "true", SCHEDULE: "@every 1s" },
      "cron.stop_endless_tasks": { ENABLED: "true", SCHEDULE: "@every 1s" },
    },
  });

  /** Fills the backend's only slot, then makes another job wait for it. */
  const queue = async (backend: "pod" | "vm") => {
    const [begun, end] = [gateIn(real.shared, `${backend}-begun`), gateIn(real.shared, `${backend}-end`)];
    const holder = await real.push(`${backend}-holder`, holding(backend, begun, end));
    await begun.opened();
    const waiting = await real.push(`${backend}-waiting`, job(backend, "echo 'had to wait'"));
    await real.line(
      ({ msg, repository }) => msg === "task stored" && String(repository).endsWith(`/${backend}-waiting`),
    );
    return { holder, waiting, end };
  };
  let pod: Awaited<ReturnType<typeof queue>>;
  let vm: typeof pod;
  let forgotten: PushedRun;
  before("fill both pools, and let a runner forget a job", async () => {
    pod = await queue("pod");
    forgotten = await real.push("forgotten", workflow("deaf", "echo never"));
    const { gitea } = real.platform;
    const { owner, name } = forgotten.repository;
    const runner = { name: "deaf", labels: ["deaf"], scope: `${owner}/${name}` };
    fetchAndForget(gitea.url, await registerRunner(gitea, runner, stop.signal), stop.signal);
    vm = await queue("vm");
  });
  after(() => stop.abort());

  it("survives Gitea's sweep of silent tasks and runs; the one that held the pool as well", async () => {
    const [swept] = await forgotten.jobs();
    // Fetched after those that wait with us, and not a word about it since.
    assert.equal(swept?.conclusion, "failure");
    await pod.end.unlock();
    for (const run of [pod.holder, pod.waiting]) {
      const [only] = await run.jobs();
      assert.equal(only?.conclusion, "success");
    }
  });

  it("is failed by us, with the reason, before Gitea's limit for endless tasks ends it", async () => {
    const [failed] = await vm.waiting.jobs(undefined, 150_000);
    assert.equal(failed?.conclusion, "failure");
    assert.match((await vm.waiting.log(failed)).join("\n"), /Reason: no_time_left\./);
    await vm.end.unlock();
    const [held] = await vm.holder.jobs();
    assert.equal(held?.conclusion, "success");
    await real.nothingLeft();
  });
});
