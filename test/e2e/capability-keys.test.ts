import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { newCapabilityKey } from "../../scripts/quick-start/secrets.ts";
import { eventually } from "../support/eventually.ts";
import { healthPages } from "../support/health-pages.ts";
import { usePlatform } from "../support/platform.ts";
import type { PushedRun } from "../support/push-run.ts";

/** In place of five minutes. */
const silenceMs = 10_000;

describe("the capability keys, on a controller with one place", () => {
  const real = usePlatform({
    controller: { POD_CAPACITY: "1", RUNNER_TIMES: JSON.stringify({ silenceMs }) },
  });
  const signal = AbortSignal.timeout(30 * 60_000);
  let gates = "";
  before(async () => {
    gates = await mkdtemp(path.join(tmpdir(), "gate-"));
    await chmod(gates, 0o755);
  });
  after(() => rm(gates, { recursive: true, force: true }));

  const gate = (name: string) => path.join(gates, name);
  const push = (name: string) =>
    real.push(
      name,
      `
on: push
jobs:
  long:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          echo "${name} begins"
          while [ ! -e ${gate(name)} ]; do sleep 0.1; done
          echo "${name} ends"
`,
    );
  /** Resolves to the first line behind `seen` that fits. */
  const line = (seen: number, fits: (one: (typeof real.lines)[number]) => boolean) =>
    real.line((one) => real.lines.indexOf(one) >= seen && fits(one));
  const claimed = (seen: number) => line(seen, (one) => one["event"] === "runner_claimed");
  const keyFile = () => {
    const file = real.platform.environment["CAPABILITY_KEY_FILE"];
    assert.ok(file !== undefined);
    return file;
  };
  /** Restarts the controller with these keys; what it logs from then on stands behind the number. */
  const restartWith = async (keys: readonly string[], changed = {}): Promise<number> => {
    const controller = real.platform.controller();
    controller.signal("SIGTERM");
    assert.equal(await controller.exited, "exit code 0");
    await writeFile(keyFile(), keys.map((key) => `${key}\n`).join(""));
    const seen = real.lines.length;
    await real.platform.restartController(signal, changed);
    return seen;
  };
  const succeeds = async (run: PushedRun, name: string) => {
    const [job] = await run.jobs();
    assert.equal(job?.conclusion, "success");
    const log = (await run.log(job)).filter((one) => /^\w+ (begins|ends)$/.test(one));
    assert.deepEqual(log, [`${name} begins`, `${name} ends`]);
  };

  it("are replaced while one job runs and one waits, with a wrong file in between: neither notices", async () => {
    const old = (await readFile(keyFile(), "utf8")).trim();
    const [fresh, wrong] = [newCapabilityKey(), newCapabilityKey()];
    const runs = await push("runs");
    await claimed(0);
    const stored = real.lines.length;
    const waits = await push("waits");
    await line(stored, ({ msg }) => msg === "task stored");

    // With a second place, so that somebody looks at the message.
    let seen = await restartWith([wrong], { POD_CAPACITY: "2" });
    await writeFile(gate("runs"), "");
    // The executor repeats its calls, and the message comes back.
    await line(seen, (one) => one.msg === "caller refused" && one["kind"] === "capability");
    await line(seen, ({ error }) =>
      /needs key [0-9a-f]{8}, which CAPABILITY_KEY_FILE lacks/.test(String(error)),
    );

    // For longer than a silent executor may take: it is refused, but heard.
    const led = Date.parse(String((await line(seen, ({ msg }) => msg === "runner started"))["time"]));
    await eventually("silence would be over", () => Date.now() - led > silenceMs + 7_000);
    // That is for an operator to see; neither a restart nor another controller would help.
    const health = healthPages(real.platform.environment);
    const red = await health.page("healthz");
    assert.equal(red.status, 503);
    assert.match(red.text, /^capability: no key in CAPABILITY_KEY_FILE verifies .*, since 2/m);
    assert.match(red.text, /^unknown-key: a task in the queue is sealed with a key .*, since 2/m);
    for (const kind of ["capability", "unknown-key"])
      assert.equal(await health.metric(`runners_troubles{kind="${kind}"}`), 1);
    for (const page of ["livez", "readyz"]) assert.equal((await health.page(page)).status, 200);

    seen = await restartWith([fresh, old]);
    assert.deepEqual(await health.page("healthz"), { status: 200, text: "ok\n" });
    await succeeds(runs, "runs");
    // Encrypted with the old key, started with the new one.
    await claimed(seen);

    // The old jobs are through: the old key goes.
    seen = await restartWith([fresh]);
    await writeFile(gate("waits"), "");
    await succeeds(waits, "waits");
    assert.ok(!real.lines.slice(seen).some(({ msg }) => msg === "caller refused"));
    const text = JSON.stringify(real.lines);
    for (const key of [old, fresh, wrong]) assert.ok(!text.includes(key));
  });
});
