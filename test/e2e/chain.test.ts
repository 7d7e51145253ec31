import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "mocha";
import { connect } from "nats";
import { eventually } from "../support/eventually.ts";
import { keysLeft } from "../support/keys-left.ts";
import { usePlatform } from "../support/platform.ts";

const workflow = `
on: push
jobs:
  build:
    runs-on: [self-hosted, pod]
    outputs:
      word: \${{ steps.say.outputs.word }}
    steps:
      - name: Environment
        run: |
          echo "uid=$(id -u)"
          echo "socket=$SPIFFE_ENDPOINT_SOCKET"
          env | sort
          cat /proc/$PPID/environ | tr '\\0' '\\n'
      - id: say
        run: echo "word=moonlight" >> "$GITHUB_OUTPUT"
  check:
    needs: build
    runs-on: [self-hosted, vm]
    steps:
      - run: echo "heard \${{ needs.build.outputs.word }}"
`;

describe("a push to a real Gitea", () => {
  const real = usePlatform();

  it("B-31 runs in throw-away executors on two backends, the second one with the first one's output", async () => {
    const run = await real.push("chain", workflow);
    const jobs = await run.jobs();
    assert.deepEqual(
      jobs.map(({ name, conclusion }) => [name, conclusion]),
      [
        ["build", "success"],
        ["check", "success"],
      ],
    );
    const [build, check] = jobs;
    assert.ok(build !== undefined && check !== undefined);
    assert.ok((await run.log(check)).includes("heard moonlight"));

    const id = "gitea-task-1";
    await real.line((line) => line.msg === "executor deleted" && line["assignment"] === id);
    const events = (msg: string) =>
      real.lines.filter((line) => line.msg === msg && line["assignment"] === id).map((line) => line["event"]);
    assert.deepEqual(events("assignment transition"), [
      "received",
      "capacity_acquired",
      "backend_ready",
      "runner_claimed",
      "acked",
    ]);
    assert.deepEqual(events("executor transition"), [
      "executor_absent",
      "executor_created",
      "identity_bound",
    ]);
  });

  it("leaves the history of a job behind", async () => {
    const { nats: server } = real.platform;
    const nats = await connect({ servers: server.url, user: server.user, pass: server.password });
    try {
      const manager = await nats.jetstreamManager();
      const told = async () => {
        const events: string[] = [];
        const { state } = await manager.streams.info("CI_RUNNER_EVENTS");
        for (let seq = state.first_seq; seq <= state.last_seq; seq++) {
          const { subject, data } = await manager.streams.getMessage("CI_RUNNER_EVENTS", { seq });
          const { event } = JSON.parse(Buffer.from(data).toString()) as { readonly event: string };
          if (subject === "ci.assignment.events.gitea-task-1") events.push(event);
        }
        return events;
      };
      await eventually("it is told to its end", async () => (await told()).at(-1) === "forgotten");
      const wanted = ["offered", "executor_created", "claimed", "acked", "accepted", "executor_deleted"];
      assert.deepEqual(
        (await told()).filter((event) => wanted.includes(event)),
        wanted,
      );
    } finally {
      await nats.close();
    }
  });

  it("B-75 shows a job no credential but its own", async () => {
    const { platform } = real;
    const run = await real.push("secrets", workflow);
    const [build] = await run.jobs();
    assert.ok(build !== undefined);
    const log = (await run.log(build)).join("\n");
    assert.match(log, /socket=unix:\/\/\/.*workload-api\.sock/);
    if (process.geteuid?.() === 0) assert.match(log, /uid=60[6-9]\d\d/);
    for (const name of ["GITEA_RUNNER_TOKEN_FILE", "NATS_PASSWORD_FILE", "CAPABILITY_KEY_FILE"] as const) {
      const file = platform.environment[name];
      assert.ok(file !== undefined);
      const secret = (await readFile(file, "utf8")).trim();
      assert.ok(!log.includes(secret), `${name} is in the job's environment`);
      assert.ok(!log.includes(name), `${name} is named in the job's environment`);
    }
  });

  it("leaves no executor, record or message behind", async () => {
    const { platform } = real;
    await (await real.push("tidy", workflow)).jobs();
    const names = (folder: string) => readdir(path.join(platform.folder, folder));
    const nats = await connect({
      servers: platform.nats.url,
      user: platform.nats.user,
      pass: platform.nats.password,
    });
    try {
      const manager = await nats.jetstreamManager();
      const messages = async (stream: string) => (await manager.streams.info(stream)).state.messages;
      // Gitea shows the end of the jobs before the last of it is gone.
      await eventually("no executor is left", async () => (await names("state/executors")).length === 0);
      await eventually("no message is left", async () => (await messages("CI_RUNNER")) === 0);
      await eventually("no record is left", async () => (await keysLeft(manager, "CI_RUNNER")) === 0);
      assert.deepEqual(await names("spiffe/entries"), ["controller.json"]);
    } finally {
      await nats.close();
    }
  });

  it("B-02 fails a job whose runs-on nobody can serve, at once and with the reason in its log", async () => {
    const run = await real.push(
      "impossible",
      "on: push\njobs:\n  lost:\n    runs-on: [self-hosted]\n    steps:\n      - run: echo never\n",
    );
    const [lost] = await run.jobs();
    assert.equal(lost?.conclusion, "failure");
    const log = (await run.log(lost)).join("\n");
    assert.match(log, /runs-on: \[self-hosted\] names no backend/);
    assert.match(log, /\[self-hosted, pod\] or \[self-hosted, vm\]/);
  });
});
