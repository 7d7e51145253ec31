import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { loseStore } from "../../support/chaos/quick-start-nats.ts";
import { useChaos } from "../../support/chaos/use-chaos.ts";
import { eventually } from "../../support/eventually.ts";

const jobs = 40;
const capacity = 5;
const soon = () => AbortSignal.timeout(60_000);

describe("an outage while jobs wait, start and run", function () {
  this.timeout(240_000);
  const real = useChaos({
    sizes: [jobs],
    controller: { POD_CAPACITY: String(capacity), POD_BACKLOG: String(jobs) },
  });

  const test = (what: string, outage: () => Promise<void>) => {
    it(`no job is lost, doubled or shortened when ${what}`, async () => {
      const controller = real.platform.controller();
      const batch = await real.numbered.dispatch(jobs);
      const isUnderWay = async () => (await batch.begun()).length >= 2 * capacity;
      await eventually("some jobs are over and others run", isUnderWay);
      await outage();
      await batch.succeeded(await batch.over());
      await real.nothingLeft();
      assert.equal(real.platform.controller(), controller);
    });
  };

  test("NATS is restarted", () => real.platform.restartNats(soon()));

  test("NATS loses its store", () => loseStore(real.platform, capacity));

  test("Gitea is restarted", () => real.platform.restartGitea(soon()));

  test("Gitea hangs for a while", async () => {
    const { gitea } = real.platform;
    const seen = real.lines.length;
    gitea.signal("SIGSTOP");
    const isNoticed = () => real.lines.slice(seen).some(({ error }) => /gitea/i.test(String(error)));
    await eventually("the controller says so", isNoticed);
    gitea.signal("SIGCONT");
  });
});
