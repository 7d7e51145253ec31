import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { eventually } from "../support/eventually.ts";
import { useFacadeUnderAttack } from "../support/facade-under-attack.ts";
import { forbidden, noPaths, smuggled, spellings } from "../support/loopback-attacks.ts";
import type { PushedRun } from "../support/push-run.ts";

/*
 * A job of a real Gitea that wants more of it than its loopback address gives, while the job of another one runs. What
 * Gitea receives, byte for byte, is in the same attacks' unit test, test/controller/bootstrap/red-team.test.ts.
 */

/** Until an answer begins, or the connection is closed without one. */
const answerMs = 60_000;
/** Nothing moves any more behind an answer: a connection that is kept would stay open. */
const idleMs = 300;
const pong = "pong-from-gitea";

/** A call that Gitea answers without any credential, with what it was sent. */
function ping(line: string, headers = "connection: close\r\n"): string {
  const body = JSON.stringify({ data: pong });
  const type = "content-type: application/json\r\n";
  return `POST ${line}\r\nhost: x\r\n${type}${headers}content-length: ${body.length}\r\n\r\n${body}`;
}

/** Writes bytes as they are; resolves to what has come back until the connection is closed, or idle behind an answer. */
function send(origin: string, text: string): Promise<string> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve) => {
    let answer = "";
    const socket = net.connect(Number(port), hostname);
    socket.setTimeout(answerMs, () => socket.destroy()).on("error", () => undefined);
    socket.on("data", (chunk: Buffer) => {
      answer += chunk.toString("latin1");
      // An answer may come in pieces; the last word of one that names its end is the connection's.
      socket.setTimeout(/^connection: close\r$/im.test(answer) ? answerMs : idleMs);
    });
    socket.once("close", () => resolve(answer));
    socket.write(Buffer.from(text, "latin1"));
  });
}

describe("an attack on the loopback address of a real job", () => {
  const under = useFacadeUnderAttack();
  const { real, victim, untouched } = under;
  let folder = "";
  let run: PushedRun;
  let origin = "";

  before("let a job tell its loopback address", async () => {
    folder = await mkdtemp(path.join(tmpdir(), "loopback-"));
    await chmod(folder, 0o777);
    run = await real.push(
      "inside",
      `
on: push
jobs:
  attack:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          echo "$GITHUB_SERVER_URL" > ${folder}/address
          while [ ! -e ${folder}/open ]; do sleep 0.1; done
`,
    );
    await eventually("the job tells its address", async () => {
      origin = (await readFile(path.join(folder, "address"), "utf8").catch(() => "")).trim();
      return origin !== "";
    });
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("would be seen: Gitea itself answers the call, and the address answers what is allowed", async () => {
    const { url } = real.platform.gitea;
    assert.notEqual(new URL(url).origin, origin);
    assert.match(await send(url, ping(`${forbidden} HTTP/1.1`)), new RegExp(pong));
    const version = "GET /api/v1/version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert.match(await send(origin, version), /"version"/);
  });

  for (const spelling of spellings) {
    const target = spelling.replace(/([/\\]|%2f)x$/i, "$1ping.v1.PingService/Ping");
    it(`by ${target} is refused`, async () => {
      const answer = await send(origin, ping(`${target} HTTP/1.1`));
      assert.match(answer, /^HTTP\/1.1 403 /);
      assert.ok(!answer.includes(pong));
      await untouched();
    });
  }

  for (const target of noPaths)
    it(`by ${target} is refused`, async () => {
      const answer = await send(origin, ping(`${target} HTTP/1.1`));
      assert.match(answer, /^HTTP\/1.1 400 /);
      assert.ok(!answer.includes(pong));
      await untouched();
    });

  it("by CONNECT opens no tunnel", async () => {
    for (const target of ["127.0.0.1:80", new URL(real.platform.gitea.url).host, forbidden, "/"]) {
      const connect = `CONNECT ${target} HTTP/1.1\r\nhost: x\r\n\r\n`;
      const answer = await send(origin, connect + ping(`${forbidden} HTTP/1.1`));
      assert.ok(!answer.includes(pong) && !/^HTTP\/1.1 2/.test(answer), answer);
    }
    await untouched();
  });

  for (const [what, rest] of smuggled(ping(`${forbidden} HTTP/1.1`)))
    it(`by a request that hides behind one with ${what} is refused`, async () => {
      for (const method of ["GET", "POST"]) {
        const answer = await send(origin, `${method} /api/v1/version HTTP/1.1\r\nhost: x\r\n${rest}`);
        assert.ok(!answer.includes(pong), answer);
      }
      await untouched();
    });

  for (const [method, message] of [
    ["UpdateTask", () => ({ state: { id: String(victim().taskId), result: "RESULT_FAILURE" } })],
    ["UpdateLog", () => ({ taskId: String(victim().taskId), rows: [{ content: "owned" }], noMore: true })],
    ["Register", () => ({ name: "mallory", token: "x", labels: ["vm"] })],
  ] as const)
    it(`by ${method} of the runner protocol that it speaks itself, about the victim, is refused`, async () => {
      const response = await fetch(`${origin}/api/actions/runner.v1.RunnerService/${method}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(message()),
      });
      assert.ok([400, 403].includes(response.status), String(response.status));
      assert.match(await response.text(), /another task's|registered already/);
      await untouched();
    });

  it("has left both jobs their own results", async () => {
    await writeFile(path.join(folder, "open"), "");
    assert.equal((await run.jobs())[0]?.conclusion, "success");
    await under.endsWell();
  });
});
