import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { after, before, describe, it } from "mocha";
import { logIn } from "../../scripts/peers/gitea-api/web-session.ts";
import { asNobody } from "../support/as-nobody.ts";
import { eventually } from "../support/eventually.ts";
import { findInFiles } from "../support/find-in-files.ts";
import { createLane } from "../support/lane.ts";
import { skipFor } from "../support/needs-tools.ts";
import { usePlatform } from "../support/platform.ts";
import { beginWorkload } from "../support/run-workload.ts";
import type { Hand } from "../support/workload.ts";

const allMs = 300_000;
const planted = `planted-${randomBytes(12).toString("hex")}`;

/** Holds the only slot until the file `go` is there. */
function holder(gates: string): string {
  return `
on: push
jobs:
  hold:
    runs-on: [self-hosted, pod]
    steps:
      - run: while [ ! -e ${gates}/go ]; do sleep 0.1; done
`;
}

/** Uses its secrets in every way, tells us its tokens, and goes on until the file `end` is there. */
function user(gates: string): string {
  return `
on: push
jobs:
  use:
    runs-on: [self-hosted, pod]
    steps:
      - env:
          PLANTED: \${{ secrets.PLANTED }}
          TOKEN: \${{ secrets.GITHUB_TOKEN }}
        run: |
          echo "planted is $PLANTED, and \${{ secrets.PLANTED }}"
          umask 077
          echo "$TOKEN" > ${gates}/token
          echo "$ACTIONS_RUNTIME_TOKEN" > ${gates}/runtime-token
          id -u > ${gates}/uid
          touch ${gates}/begun
          while [ ! -e ${gates}/end ]; do sleep 0.1; done
`;
}

describe("a secret of a repository, from the queue to the end of its job", function () {
  this.timeout(allMs);
  const real = usePlatform({ controller: { POD_CAPACITY: "1", LOG_LEVEL: "trace" } });
  let gates = "";
  let hand: Hand | undefined;
  let assignment = "";

  before("push a job that holds the slot, and one with a secret behind it", async () => {
    gates = await mkdtemp(path.join(tmpdir(), "gates-"));
    await chmod(gates, 0o777);
    const { admin } = real.platform;
    const signal = AbortSignal.timeout(allMs);
    const place = { name: "secret", admin, session: await logIn(admin, signal), making: createLane() };
    const files = (workflow: string) => ({ ".gitea/workflows/test.yml": workflow });
    await beginWorkload(place, { name: "holder", files: files(holder(gates)) }, signal);
    await real.line(({ event }) => event === "acked");
    const secrets = { PLANTED: planted };
    hand = await beginWorkload(place, { name: "user", files: files(user(gates)), secrets }, signal);
    const repository = `${hand.repository.owner}/${hand.repository.name}`;
    const stored = await real.line((line) => line.msg === "task stored" && line["repository"] === repository);
    assignment = String(stored["assignment"]);
  });
  after(() => rm(gates, { recursive: true, force: true }));

  const has = (gate: string) => statSync(path.join(gates, gate), { throwIfNoEntry: false }) !== undefined;
  const open = (gate: string) => writeFile(path.join(gates, gate), "");
  const told = async (gate: string) => (await readFile(path.join(gates, gate), "utf8")).trim();

  /**
   * Everything that we keep: JetStream's files with messages and records, the controller's log, executor.json,
   * what executors print. Not what Gitea keeps, nor an executor's home, which is closed to others.
   */
  const keeps = (text: string) =>
    findInFiles(
      real.platform.folder,
      text,
      (file) => file.startsWith("gitea/") || /^state\/executors\/[^/]+\/home\//.test(file),
    );
  const keepsNone = async (secrets: readonly string[]) => {
    for (const secret of secrets) assert.deepEqual(await keeps(secret), []);
  };

  /** As a task would lie there that is compressed and not encrypted, or that is part of some JSON. */
  const findsWhatIsPacked = async () => {
    const task = gzipSync(`secrets: ${planted}`);
    const gzipped = Buffer.concat([Buffer.from("{}\n"), task, Buffer.from("the next message")]);
    const inJson = ["", "a", "ab"].map((first) => Buffer.from(`${first}${planted}.`).toString("base64"));
    for (const content of [gzipped, ...inJson]) {
      const file = path.join(real.platform.folder, "packed");
      await writeFile(file, content);
      assert.deepEqual(await keeps(planted), ["packed"]);
      await rm(file);
    }
  };

  it("is in no file while the job waits", async () => {
    const found = await keeps(assignment);
    // The search finds what is there.
    assert.ok(found.includes("controller.log"), found.join(", "));
    assert.ok(
      found.some((file) => file.startsWith("nats/jetstream/")),
      found.join(", "),
    );
    await findsWhatIsPacked();
    await keepsNone([planted]);
  });

  it("is in no file of ours while the job runs, and neither are the job's tokens", async () => {
    await open("go");
    await eventually("the start of the job with the secret", () => has("begun"), allMs);
    // From here on there is one executor, and no other goes while we look around.
    await real.line((line) => line.msg === "executor deleted" && line["assignment"] !== assignment);
    const found = await keeps(assignment);
    assert.ok(
      found.some((file) => file.endsWith("/executor.json")),
      found.join(", "),
    );
    const tokens = [await told("token"), await told("runtime-token")];
    for (const token of tokens) assert.ok(token.length >= 40);
    await keepsNone([planted, ...tokens]);
  });

  it("is in the environment of the job's own processes only, and in no command line", async () => {
    const uid = process.geteuid?.() === 0 ? Number(await told("uid")) : process.geteuid?.();
    const holders = readdirSync("/proc").flatMap((pid) => {
      if (!/^\d+$/.test(pid) || !read(`/proc/${pid}/environ`).includes(planted)) return [];
      const command = read(`/proc/${pid}/cmdline`).toString();
      const owner = statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
      // One that has ended meanwhile has neither: the step's sleeps are short.
      return command === "" || owner === undefined ? [] : [{ command, owner }];
    });
    assert.ok(holders.length > 0, "the step itself has it");
    for (const { command, owner } of holders) {
      assert.equal(owner, uid);
      assert.match(command, /^(bash|sleep)\0/);
    }
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name)))
      assert.ok(!read(`/proc/${pid}/cmdline`).includes(planted), `process ${pid}`);
  });

  it("is not to be seen by another user of the machine, in no process and no file", async function () {
    if (process.geteuid?.() !== 0) skipFor(this, "running as another user needs root");
    const seen = await asNobody("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ");
    assert.ok(seen.includes("gitea-runner"), "it sees the processes");
    for (const secret of [planted, await told("token"), await told("runtime-token")])
      assert.ok(!seen.includes(secret));

    const files = await asNobody(`find "$1" -type f -exec cat {} +`, real.platform.folder);
    assert.ok(files.includes("workdir_parent"), "it sees the executors' configuration");
    const { environment } = real.platform;
    const ours = ["GITEA_RUNNER_TOKEN_FILE", "NATS_PASSWORD_FILE", "CAPABILITY_KEY_FILE"].map((name) =>
      readFileSync(environment[name] ?? "", "utf8").trim(),
    );
    for (const secret of [planted, await told("token"), ...ours]) assert.ok(!files.includes(secret));
    const executors = path.join(real.platform.folder, "state/executors");
    for (const name of readdirSync(executors))
      assert.equal((await stat(path.join(executors, name, "home"))).mode & 0o777, 0o700);
  });

  it("is masked in the job's log, and nothing of it is left when the job is over", async () => {
    assert.ok(hand !== undefined);
    const tokens = [await told("token"), await told("runtime-token")];
    await open("end");
    const [job] = await hand.jobs(await hand.newestRun(), (jobs) =>
      jobs.every(({ status }) => status === "completed"),
    );
    assert.equal(job?.conclusion, "success");
    const log = await hand.log(job);
    assert.ok(log.includes("planted is ***, and ***"), log.join("\n"));
    assert.ok(!log.join("\n").includes(planted));
    await real.line((line) => line.msg === "executor deleted" && line["assignment"] === assignment);
    await keepsNone([planted, ...tokens]);
  });
});

function read(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch {
    return Buffer.alloc(0);
  }
}
