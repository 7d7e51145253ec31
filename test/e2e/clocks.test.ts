import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { canGiveUids } from "../controller/backends/local/if-root.ts";
import { eventually } from "../support/eventually.ts";
import { healthPages } from "../support/health-pages.ts";
import { type PlatformUnderTest, usePlatform } from "../support/platform.ts";
import { usePrintingJobs } from "../support/printing-jobs.ts";
import { useSlowClock } from "../support/slow-clock.ts";

/** SVIDs begin ten seconds before they are made: so those of an authority that is so far ahead begin in 30 s. */
const differenceSeconds = 40;

type Line = { readonly msg: string; readonly [field: string]: unknown };

/** It has seen an SVID of its own that was not valid yet, and taken it when it was: by its own clock. */
function assertWaited(lines: readonly Line[]): void {
  const timeOf = ({ time }: Line) => Date.parse(String(time));
  const early = lines.flatMap((line) => {
    const from =
      line.msg === "no new x509-svid" && /valid only from (\S+Z)/.exec(String(line["problem"]))?.[1];
    return typeof from === "string" ? [{ at: timeOf(line), from: Date.parse(from) }] : [];
  });
  const [first] = early;
  const taken = lines.find(({ msg }) => msg === "x509-svid received");
  assert.ok(first !== undefined && taken !== undefined, "it has not waited");
  for (const { at, from } of early)
    assert.ok(at < from, `it refused at ${at} what was valid from ${from} on`);
  assert.ok(timeOf(taken) >= first.from, "it has taken what was not valid yet");
}

/** Nothing was given up and begun anew. */
function assertOneAttempt(real: PlatformUnderTest): void {
  assert.equal(real.lines.filter(({ event }) => event === "executor_created").length, 1);
  assert.deepEqual(
    real.lines.filter(({ level }) => level === "fatal"),
    [],
  );
}

// SPIRE begins each certificate ten seconds before it makes it, which no setting changes, and like all Go programs it
// asks the kernel for the time. So here the authority is the development Workload API; all else is real.
describe("certificates of an authority whose clock is 40 s ahead (development Workload API)", () => {
  const real = usePlatform({ workloadApi: { clockAheadSeconds: differenceSeconds } });
  const jobs = usePrintingJobs(real);

  it("are waited for by the facade and by the bootstrap until they are valid, and the job succeeds", async () => {
    assertWaited(real.lines);
    const run = await jobs.running("ahead");
    const [executor] = await jobs.executors();
    assertWaited(executor?.lines ?? []);
    assertOneAttempt(real);
    await jobs.openGate("ahead");
    await jobs.assertComplete(run);
  });
});

describe("certificates of real SPIRE, for a controller whose clock is 40 s behind", () => {
  if (!canGiveUids("a controller with a wrong clock on real SPIRE")) return;
  const controller = useSlowClock(differenceSeconds);
  const real = usePlatform({ spire: { svidTtlSeconds: 600 }, controller });
  const jobs = usePrintingJobs(real);
  const refusals = () =>
    healthPages(real.platform.environment).metric('runners_refused_callers_total{reason="not-yet-valid"}');

  it("are refused as not yet valid, which the bootstrap outlasts, and the job succeeds", async () => {
    // Its own is one of them.
    assertWaited(real.lines);
    const pushed = real.push("behind", jobs.workflow("behind"));
    await eventually("the executor has its SVID", async () =>
      (await jobs.executors()).some(({ lines }) => lines.some(({ msg }) => msg === "x509-svid received")),
    );
    const refused = await real.line(
      ({ msg, kind }) => msg === "connection refused" && kind === "not-yet-valid",
    );
    assert.equal(refused["reason"], "CERT_NOT_YET_VALID");
    assert.ok(
      !(await jobs.executors()).some(({ lines }) => lines.some(({ msg }) => msg === "facade reached")),
    );
    const run = await pushed;
    await jobs.claimed(1);
    assert.ok(((await refusals()) ?? 0) > 2, "it was tried again and again");
    assertOneAttempt(real);
    await jobs.openGate("behind");
    await jobs.assertComplete(run);
  });
});
