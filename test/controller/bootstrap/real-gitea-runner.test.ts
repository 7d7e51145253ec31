import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { before, describe, it } from "mocha";
import { Result } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { preparePeer } from "../../../scripts/peers/prepare-peer.ts";
import { createReport } from "../../../scripts/peers/report.ts";
import { aTask } from "../../support/a-task.ts";
import { type BootstrapUnderTest, bootstrapUnderTest } from "../../support/bootstrap-under-test.ts";

/** Building gitea-runner, when it is not in the cache yet, takes some minutes on a small machine. */
const prepareMs = 600_000;

async function configure({ folder, program }: BootstrapUnderTest): Promise<void> {
  const config = {
    runner: { file: program.registrationFile, capacity: 1 },
    cache: { enabled: false },
    host: { workdir_parent: join(folder, "work") },
    container: { workdir_parent: join(folder, "workspace") },
  };
  await writeFile(program.configFile, JSON.stringify(config));
}

describe("the real gitea-runner under the bootstrap", () => {
  let binary = "";

  before("prepare gitea-runner", async function () {
    this.timeout(prepareMs);
    const signal = AbortSignal.timeout(prepareMs);
    ({ binary } = await preparePeer("gitea-runner", { report: createReport() }, signal));
  });

  it("takes the job, reaches Gitea through the loopback address, and reports rows, steps and result", async () => {
    const asked: (string | undefined)[] = [];
    const gitea = createServer((request, response) => {
      asked.push(request.url);
      response.end("hello from gitea");
    });
    gitea.listen(0, "127.0.0.1");
    await once(gitea, "listening");
    const serverUrl = `http://127.0.0.1:${(gitea.address() as AddressInfo).port}/`;
    const node = JSON.stringify(process.execPath);
    const workflow = `
name: test
on: push
jobs:
  build:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          ${node} -e 'fetch(process.env.GITHUB_SERVER_URL + "/acme/widgets").then(async (r) => console.log(await r.text()))'
      - run: exit 5
      - run: echo not reached
`;
    const task = aTask({ workflow });
    task.context = { ...task.context, server_url: serverUrl };
    await using test = await bootstrapUnderTest({ task, logRows: 2 });
    await configure(test);
    const environment = { PATH: process.env["PATH"] ?? "", HOME: test.folder };
    const result = await test.run({ binary, environment });
    gitea.closeAllConnections();
    await new Promise((resolve) => gitea.close(resolve));

    assert.equal(result, Result.FAILURE);
    assert.deepEqual(asked, ["/acme/widgets"]);
    assert.ok(test.facade.rows.includes("hello from gitea"), test.facade.rows.join("\n"));
    const steps = test.facade.states.at(-1)?.state?.steps ?? [];
    assert.deepEqual(
      steps.map((step) => step.result),
      [Result.SUCCESS, Result.FAILURE, Result.SKIPPED],
    );
    const [first] = steps;
    const own = test.facade.rows.slice(
      Number(first?.logIndex) - 2,
      Number(first?.logIndex) - 2 + Number(first?.logLength),
    );
    assert.ok(own.includes("hello from gitea"), own.join("\n"));
    assert.equal(test.facade.logs.at(-1)?.noMore, true);
  });

  it("is rid of a cancelled step soon, also of what the step has started", async () => {
    const workflow = `
name: test
on: push
jobs:
  build:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          echo begun
          sleep 600
          echo never
      - run: echo never
`;
    await using test = await bootstrapUnderTest({ task: aTask({ workflow }) });
    await configure(test);
    const environment = { PATH: process.env["PATH"] ?? "", HOME: test.folder };
    const running = test.run({ binary, environment });
    while (!test.facade.rows.includes("begun"))
      await test.facade.called("updateLog", test.facade.logs.length + 1);
    test.facade.result = Result.CANCELLED;
    // gitea-runner reports every 5 s, and hears of the cancel then: long before the step would end by itself.
    assert.equal(await running, Result.CANCELLED);
    assert.ok(!test.facade.rows.includes("never"));
    assert.deepEqual(
      test.facade.states.at(-1)?.state?.steps.map(({ result }) => result),
      [Result.FAILURE, Result.CANCELLED],
    );
  });

  it("leaves it to the controller how a job ended whose executor was told to end", async () => {
    const workflow = `
name: test
on: push
jobs:
  build:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          echo begun
          sleep 600
`;
    await using test = await bootstrapUnderTest({ task: aTask({ workflow }) });
    await configure(test);
    const environment = { PATH: process.env["PATH"] ?? "", HOME: test.folder };
    const running = test.run({ binary, environment });
    while (!test.facade.rows.includes("begun"))
      await test.facade.called("updateLog", test.facade.logs.length + 1);
    test.stop.abort(new Error("SIGTERM"));
    await assert.rejects(running, /no result was delivered/);
    assert.equal(test.facade.rows.at(-1), "The executor was told to end while this job ran.");
    assert.ok(test.facade.logs.every(({ noMore }) => !noMore));
    assert.ok(test.facade.states.every(({ state }) => state?.result === Result.UNSPECIFIED));
  });

  it("ends in time though the facade is away, and all that it has reported is delivered later", async () => {
    const workflow = `
name: test
on: push
jobs:
  build:
    runs-on: [self-hosted, pod]
    outputs:
      version: \${{ steps.first.outputs.version }}
    steps:
      - id: first
        run: |
          seq -f 'line %g' 1000
          echo "version=1.2" >> "$GITHUB_OUTPUT"
      - run: exit 5
`;
    await using test = await bootstrapUnderTest({ task: aTask({ workflow }) });
    await configure(test);
    const environment = { PATH: process.env["PATH"] ?? "", HOME: test.folder };
    const running = test.run({ binary, environment });
    await test.facade.called("updateTask");
    const rpcs = ["updateLog", "updateTask"] as const;
    for (const rpc of rpcs) test.facade.fail(rpc, Code.Unavailable);
    await test.log.line("gitea-runner is over");
    assert.equal(test.facade.rows.length, 0);
    for (const rpc of rpcs) test.facade.recover(rpc);
    assert.equal(await running, Result.FAILURE);
    assert.deepEqual(
      test.facade.rows.filter((row) => row.startsWith("line ")),
      Array.from({ length: 1000 }, (_, index) => `line ${index + 1}`),
    );
    assert.equal(test.facade.logs.at(-1)?.noMore, true);
    const last = test.facade.states.at(-1);
    assert.deepEqual(last?.outputs, { version: "1.2" });
    assert.deepEqual(
      last.state?.steps.map(({ result }) => result),
      [Result.SUCCESS, Result.FAILURE],
    );
    const [first] = last.state?.steps ?? [];
    const own = test.facade.rows.slice(
      Number(first?.logIndex),
      Number((first?.logIndex ?? 0n) + (first?.logLength ?? 0n)),
    );
    assert.ok(own.includes("line 1") && own.includes("line 1000"));
  });
});
