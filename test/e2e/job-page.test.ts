import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import type { Page } from "playwright-core";
import { systemClock } from "../../controller/platform/clock.ts";
import { useBrowser } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { usePlatform } from "../support/platform.ts";

/** The middle step waits for a file, so that the page can be looked at while the job runs. */
function gated(gate: string): string {
  return `
on: push
jobs:
  seen:
    runs-on: [self-hosted, pod]
    steps:
      - name: First
        run: echo "words of the first step"
      - name: Second
        run: |
          echo "before the gate"
          for i in $(seq 6000); do [ -e ${gate} ] && break; sleep 0.1; done
          echo "behind the gate"
      - name: Third
        run: exit 3
      - name: Fourth
        run: echo never
`;
}

type ShownStep = { readonly name: string; readonly icon: string; readonly seconds: number };

/** Gitea writes durations as Go does, and leaves none out: `0s`, `3s`, `1m3s`. */
function secondsOf(duration: string): number {
  const [, minutes = "0", seconds] = /^(?:(\d+)m)?(\d+)s$/.exec(duration) ?? [];
  assert.ok(seconds !== undefined, `"${duration}" is no duration`);
  return 60 * Number(minutes) + Number(seconds);
}

/** For how long the page can be seen to count while the job runs. */
const countedSeconds = 3;

/** The steps as they stand on the page, top to bottom; an icon is named by its status. */
async function shownSteps(page: Page): Promise<readonly ShownStep[]> {
  const sections = await page.locator(".job-step-section").all();
  return Promise.all(
    sections.map(async (section) => ({
      name: await section.locator(".step-summary-msg").innerText(),
      icon:
        (await section
          .locator(".job-step-summary svg[data-tooltip-content]")
          .getAttribute("data-tooltip-content")) ?? "",
      seconds: secondsOf(await section.locator(".step-summary-duration").innerText()),
    })),
  );
}

describe("the job's page in a browser", () => {
  const real = usePlatform();
  const browser = useBrowser();
  let folder = "";
  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "gate-"));
    await chmod(folder, 0o755);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("shows each step with its own lines, icon and duration, live while the job runs", async function () {
    this.timeout(300_000);
    const { admin, gitea } = real.platform;
    const gate = path.join(folder, "open");
    const pushed = systemClock.now();
    const run = await real.push("seen", gated(gate));
    const [job] = await run.jobs(([one]) => one?.status === "in_progress");
    assert.ok(job !== undefined);
    const page = await browser.logIn(admin);
    await page.goto(`${gitea.url}/demo/seen/actions/runs/${job.run_id}/jobs/${job.id}`);
    const section = (name: string) =>
      page.locator(".job-step-section").filter({ has: page.getByText(new RegExp(`${name}$`)) });
    const open = async (name: string) => {
      const summary = section(name).locator(".job-step-summary");
      if (!(await section(name).locator(".job-step-logs").isVisible())) await summary.click();
    };
    const lines = async (name: string) => section(name).locator(".job-step-logs .log-msg").allInnerTexts();
    const icon = (name: string, status: string) =>
      section(name).locator(`.job-step-summary svg[data-tooltip-content="${status}"]`).waitFor();

    // While the gate is closed.
    await icon("First", "success");
    await icon("Second", "running");
    await open("First");
    await section("First").getByText("words of the first step", { exact: true }).waitFor();
    await open("Second");
    await section("Second").getByText("before the gate", { exact: true }).waitFor();
    assert.ok(!(await lines("Second")).includes("behind the gate"));
    assert.ok(!(await lines("First")).includes("before the gate"));

    const secondsShown = async (name: string) =>
      secondsOf(await section(name).locator(".step-summary-duration").innerText());
    await eventually("the page counts", async () => (await secondsShown("Second")) >= countedSeconds);

    // The page follows by itself.
    await writeFile(gate, "");
    await section("Second").getByText("behind the gate", { exact: true }).waitFor();
    await icon("Second", "success");
    await icon("Third", "failure");
    await icon("Fourth", "skipped");
    await icon("Complete job", "failure");
    const steps = await shownSteps(page);
    assert.deepEqual(
      steps.map(({ name, icon: status }) => [name.replace(/^Run /, ""), status]),
      [
        ["Set up job", "success"],
        ["First", "success"],
        ["Second", "success"],
        ["Third", "failure"],
        ["Fourth", "skipped"],
        // Gitea closes a job that failed with its own result.
        ["Complete job", "failure"],
      ],
    );
    const took = Object.fromEntries(steps.map(({ name, seconds }) => [name.replace(/^Run /, ""), seconds]));
    assert.ok((took["Second"] ?? 0) >= countedSeconds, JSON.stringify(took));
    assert.equal(took["Fourth"], 0);
    // Each begins when the one before has ended, and Gitea keeps whole seconds.
    const sum = steps.reduce((all, { seconds }) => all + seconds, 0);
    const whole = (systemClock.now() - pushed) / 1000;
    assert.ok(sum <= whole + steps.length, `${JSON.stringify(took)} in ${whole} s`);

    await open("Third");
    await section("Third").getByText("exit 3").first().waitFor({ state: "attached" });
    assert.deepEqual(await lines("Fourth"), []);
    const shownUnder = async (name: string) => (await lines(name)).filter((line) => line.endsWith(" gate"));
    assert.deepEqual(await shownUnder("Second"), ["before the gate", "behind the gate"]);
    for (const name of ["First", "Third"]) assert.deepEqual(await shownUnder(name), []);
  });
});
