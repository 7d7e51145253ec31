import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { loseStore } from "../../support/chaos/quick-start-nats.ts";
import { useChaos } from "../../support/chaos/use-chaos.ts";
import { eventually } from "../../support/eventually.ts";

const jobs = 40;
const capacity = 5;
/** Bootstrap and facade give up any call sooner, but for FetchTask. */
const longestCallMs = 12_000;
const soon = () => AbortSignal.timeout(180_000);

describe("an outage while jobs wait, start and run", function () {
  this.timeout(420_000);
  const real = useChaos({
    sizes: [jobs],
    controller: { POD_CAPACITY: String(capacity), POD_BACKLOG: String(jobs) },
  });

  const test = (what: string, outage: () => Promise<void>) => {
    it(`no job is lost, doubled or shortened when ${what}`, async () => {
      const controller = real.platform.controller();
      const batch = await real.numbered.dispatch(jobs);
      const isUnderWay = async () => (await batch.begun()).length >= 2 * capacity;
      await eventually("some jobs are over and others run", isUnderWay, 120_000);
      await outage();
      await batch.succeeded(await batch.over());
      await real.nothingLeft();
      assert.equal(real.platform.controller(), controller);
    });
  };

  test("NATS is restarted", () => real.platform.restartNats(soon()));

  test("NATS loses its store", () => loseStore(real.platform, capacity));

  test("Gitea is restarted", () => real.platform.restartGitea(soon()));

  test("Gitea hangs for longer than any call to it may take", async () => {
    const { gitea } = real.platform;
    gitea.signal("SIGSTOP");
    // Calls of our own, as patient as the longest: what the controller says depends on what it happens to ask. The
    // first ones may be answered still.
    const isGivenUp = () =>
      fetch(new URL("/api/healthz", gitea.url), { signal: AbortSignal.timeout(longestCallMs) }).then(
        () => false,
        (error: unknown) => error instanceof DOMException && error.name === "TimeoutError",
      );
    await eventually("a call to gitea is given up", isGivenUp);
    gitea.signal("SIGCONT");
  });
});
