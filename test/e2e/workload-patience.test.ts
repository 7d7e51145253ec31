import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { systemClock } from "../../controller/platform/clock.ts";
import { registerRunner } from "../../scripts/peers/gitea-api/register-runner.ts";
import type { WorkflowJob } from "../../scripts/peers/gitea-api/runs.ts";
import { cancelRun, logIn } from "../../scripts/peers/gitea-api/web-session.ts";
import type { ControllerLine } from "../../scripts/quick-start/controller-process.ts";
import { eventually } from "../support/eventually.ts";
import { fetchAndForget } from "../support/fetch-and-forget.ts";
import { findProcesses } from "../support/find-processes.ts";
import { jobTimes } from "../support/job-times.ts";
import { readJobPage } from "../support/job-page.ts";
import { createLane } from "../support/lane.ts";
import { usePlatform } from "../support/platform.ts";
import { beginWorkload } from "../support/run-workload.ts";
import type { Hand } from "../support/workload.ts";

/** Gitea ends a task of which it has heard nothing for so long. Ten minutes where nobody says otherwise. */
const zombieSeconds = 20;
const silentSeconds = zombieSeconds + 15;
const allMs = 400_000;
/**
 * From a person's click to the end of the job, on a machine however busy: that it is acted on within 20 s in any state the
 * simulation holds, whose time is its own.
 */
const cancelMs = 60_000;

function workflow(jobs: string): string {
  return `on: push\njobs:\n${jobs}`;
}

function job(name: string, runsOn: string, script: string): string {
  return `  ${name}:\n${runsOn}    steps:\n      - run: ${script}\n`;
}

const pod = "    runs-on: [self-hosted, pod]\n";
const vm = "    runs-on: [self-hosted, vm]\n";

function fullName({ repository }: Hand): string {
  return `${repository.owner}/${repository.name}`;
}

const completed = (jobs: readonly WorkflowJob[]) =>
  jobs.length > 0 && jobs.every(({ status }) => status === "completed");

describe("jobs that are silent, waiting, cancelled or impossible, with a Gitea of little patience", function () {
  this.timeout(allMs);
  const real = usePlatform({
    controller: { POD_CAPACITY: "3", VM_CAPACITY: "1", VM_BACKLOG: "2" },
    giteaSettings: {
      actions: { ENABLED: "true", ZOMBIE_TASK_TIMEOUT: `${zombieSeconds}s` },
      "cron.stop_zombie_tasks": { ENABLED: "true", SCHEDULE: "@every 5s" },
    },
  });
  const stop = new AbortController();
  const begun = new Map<string, Promise<Hand>>();
  const of = async (name: string): Promise<Hand> => {
    const hand = begun.get(name);
    assert.ok(hand !== undefined, name);
    return await hand;
  };
  /** The jobs of the only run when it is over, by name. */
  const ended = async (hand: Hand) => {
    const jobs = await hand.jobs(await hand.newestRun(), completed);
    return Object.fromEntries(jobs.map((each) => [each.name, each]));
  };

  let gates = "";
  const gate = () => path.join(gates, "open");
  before("push all of them", async () => {
    gates = await mkdtemp(path.join(tmpdir(), "gate-"));
    await chmod(gates, 0o755);
    const { admin, gitea } = real.platform;
    const session = await logIn(admin, stop.signal);
    const place = { name: "patience", admin, session, making: createLane() };
    const workflows = {
      // First of all: while jobs wait for the VM, those that name it among others are not even offered to us.
      impossible: [
        job("nothing-named", "    runs-on: [self-hosted]\n", "echo never"),
        job("both-named", "    runs-on: [self-hosted, pod, vm]\n", "echo never"),
        job("not-self-hosted", "    runs-on: [pod]\n", "echo never"),
        job("empty", "    runs-on: []\n", "echo never"),
      ].join(""),
      forgotten: job("forgotten", "    runs-on: deaf\n", "echo never"),
      silent: job("silent", pod, `exec sleep ${silentSeconds}`),
      // Holds the only slot until the one behind it has waited for longer than Gitea is patient.
      first: job("first", vm, `while [ ! -e ${gate()} ]; do sleep 0.2; done`),
      children: job("children", pod, `bash -c 'exec -a left-by-a-cancelled-step sleep 300; true'`),
      unoffered: job("unoffered", "    runs-on: [self-hosted, gpu]\n", "echo never"),
    };
    const begin = (name: string, jobs: string) =>
      beginWorkload(place, { name, files: { ".gitea/workflows/test.yml": workflow(jobs) } }, stop.signal);
    for (const [name, jobs] of Object.entries(workflows)) begun.set(name, begin(name, jobs));
    const slotTaken = of("first").then(() =>
      real.line((line) => line["event"] === "executor_created" && line["backend"] === "vm"),
    );
    for (const name of ["second", "third"])
      begun.set(
        name,
        slotTaken.then(() => begin(name, job(name, vm, "echo 'had to wait'"))),
      );
    // Each test looks at its own.
    for (const hand of begun.values()) hand.catch(() => undefined);
    // For its own repository only: a job without labels would suit it too.
    const scope = fullName(await of("forgotten"));
    fetchAndForget(
      gitea.url,
      await registerRunner(gitea, { name: "deaf", labels: ["deaf"], scope }, stop.signal),
      stop.signal,
    );
  });
  after("give up what still waits", async () => {
    stop.abort();
    await rm(gates, { recursive: true, force: true });
  });

  it("B-02 fails a job that nobody can run before Gitea does, and says in its log what was asked and what is offered", async () => {
    const hand = await of("impossible");
    const jobs = await ended(hand);
    assert.deepEqual(Object.keys(jobs).toSorted(), [
      "both-named",
      "empty",
      "not-self-hosted",
      "nothing-named",
    ]);
    const reasons: Readonly<Record<string, RegExp>> = {
      "nothing-named": /runs-on: \[self-hosted\] names no backend/,
      "both-named": /runs-on: \[self-hosted, pod, vm\] names more than one backend/,
      "not-self-hosted": /runs-on: \[pod\] .*self-hosted/,
      empty: /runs-on: \[\]/,
    };
    for (const [name, each] of Object.entries(jobs)) {
      assert.equal(each.conclusion, "failure", name);
      const log = (await hand.log(each)).join("\n");
      assert.match(log, reasons[name] ?? /never/);
      assert.match(log, /\[self-hosted, pod\] or \[self-hosted, vm\]/);
      const { startedAt, completedAt } = await jobTimes(hand, each);
      const tookMs = completedAt - startedAt;
      assert.ok(tookMs < zombieSeconds * 1_000, `${name}: ${tookMs} ms`);
    }
  });

  it("ends a cancelled job soon, with what its step has started, and its slot is free again", async () => {
    const hand = await of("children");
    const run = await hand.newestRun();
    const runs = () => findProcesses("left-by-a-cancelled-step").length > 0;
    await eventually("the start of the step's child", runs, allMs);
    const clicked = systemClock.now();
    await cancelRun(hand.session, hand.repository, run, hand.signal);
    const [cancelled] = await hand.jobs(run, completed);
    assert.equal(cancelled?.conclusion, "cancelled");
    const took = systemClock.now() - clicked;
    assert.ok(took <= cancelMs, `it took ${took / 1000} s`);
    await eventually("the end of the step's child", () => !runs());
    const stored = await real.line(
      ({ msg, repository }) => msg === "task stored" && repository === fullName(hand),
    );
    await real.line(
      ({ msg, assignment }) => msg === "executor deleted" && assignment === stored["assignment"],
    );
  });

  it("ends a cancelled job soon that waits for a slot, and starts nothing for it", async () => {
    const hand = await of("third");
    const run = await hand.newestRun();
    const stored = await real.line(
      ({ msg, repository }) => msg === "task stored" && repository === fullName(hand),
    );
    const clicked = systemClock.now();
    await cancelRun(hand.session, hand.repository, run, hand.signal);
    const [cancelled] = await hand.jobs(run, completed);
    assert.equal(cancelled?.conclusion, "cancelled");
    const took = systemClock.now() - clicked;
    assert.ok(took <= cancelMs, `it took ${took / 1000} s`);
    const ofIt = real.lines.filter(({ assignment }) => assignment === stored["assignment"]);
    assert.ok(!ofIt.some(({ event }) => event === "executor_created"));
  });

  it("keeps a job alive whose step says nothing for longer than Gitea is patient", async () => {
    const { silent } = await ended(await of("silent"));
    assert.equal(silent?.conclusion, "success");
    // The patience is really that little: a runner that takes a job and says nothing loses it.
    const { forgotten } = await ended(await of("forgotten"));
    assert.equal(forgotten?.conclusion, "failure");
  });

  it("keeps a job alive that waits for a slot for longer than Gitea is patient", async () => {
    const hand = await of("second");
    const stored = ({ msg, repository }: ControllerLine) =>
      msg === "task stored" && repository === fullName(hand);
    const storedAt = Date.parse(String((await real.line(stored))["time"]));
    const isLong = () => systemClock.now() - storedAt > silentSeconds * 1_000;
    await eventually("it has waited for longer than Gitea is patient", isLong);
    await writeFile(gate(), "");
    const { second } = await ended(hand);
    assert.equal(second?.conclusion, "success");
    const { first } = await ended(await of("first"));
    assert.equal(first?.conclusion, "success");
    // It was ours already all the time that it waited.
    const at = (fits: (line: ControllerLine) => boolean) =>
      Date.parse(String(real.lines.find((line) => fits(line))?.["time"]));
    const id = real.lines.find((line) => stored(line))?.["assignment"];
    const created = ({ event, assignment }: ControllerLine) =>
      event === "executor_created" && assignment === id;
    const waited = at(created) - storedAt;
    assert.ok(waited > zombieSeconds * 1000, `it waited for ${waited} ms only`);
  });

  it("leaves a job waiting whose label nobody offers, and Gitea's page says why", async () => {
    const hand = await of("unoffered");
    const [waiting] = await hand.jobs(await hand.newestRun(), (jobs) => jobs.length > 0);
    assert.ok(waiting !== undefined);
    // Everything else is over by now: it had its chance.
    assert.equal(waiting.status, "queued");
    assert.deepEqual(await hand.log(waiting), []);
    const { detail } = await readJobPage(hand.session, hand.repository, waiting, hand.signal);
    assert.match(detail, /self-hosted, gpu/);
  });
});
