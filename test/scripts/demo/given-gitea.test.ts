import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, it } from "mocha";
import { checkGitea, openGivenGitea } from "../../../scripts/demo/given-gitea.ts";
import { freePort } from "../../../scripts/peers/free-port.ts";

type Answer = { readonly status: number; readonly body?: unknown; readonly location?: string };

const token = "0123456789abcdef";
const soon = () => AbortSignal.timeout(50_000);
const repository = { name: "demo-1", owner: { login: "me" }, has_actions: true };
const runner = { id: "5", uuid: "59cf9954-54b7-401e-a0be-c3814faf6ee5", token: "hush" };

/** As the real Gitea 1.27 answers when all goes well. */
const well: Readonly<Record<string, Answer>> = {
  "GET /api/v1/version": { status: 200, body: { version: "1.27.3" } },
  "POST /api/v1/user/repos": { status: 201, body: repository },
  "PATCH /api/v1/repos/me/demo-1": { status: 200, body: repository },
  "POST /api/v1/repos/me/demo-1/actions/runners/registration-token": { status: 200, body: { token: "once" } },
  "POST /api/actions/runner.v1.RunnerService/Register": { status: 200, body: { runner } },
  "DELETE /api/v1/repos/me/demo-1/actions/runners/5": { status: 204 },
  "DELETE /api/v1/repos/me/demo-1": { status: 204 },
};
const removal = ["DELETE /api/v1/repos/me/demo-1/actions/runners/5", "DELETE /api/v1/repos/me/demo-1"];

describe("a Gitea of one's own", () => {
  let server: Server | undefined;
  afterEach(() => server?.close());

  /** Answers as told, all else with 404, and remembers what it was asked. */
  async function serve(
    changed: Readonly<Record<string, Answer>> = {},
    onCall: (call: string) => void = () => undefined,
  ) {
    const calls: string[] = [];
    const answers = { ...well, ...changed };
    const listening = createServer((request, response) => {
      const call = `${request.method} ${request.url}`;
      calls.push(call);
      onCall(call);
      const { status, body, location } = answers[call] ?? { status: 404, body: { message: "not found" } };
      request.resume();
      response.writeHead(status, location === undefined ? {} : { location });
      response.end(body === undefined ? "" : JSON.stringify(body));
    });
    server = listening;
    listening.listen(0, "127.0.0.1");
    await once(listening, "listening");
    const { port } = listening.address() as AddressInfo;
    return { calls, api: { url: `http://127.0.0.1:${port}`, token } };
  }
  const failure = (work: Promise<unknown>) =>
    work.then(
      () => assert.fail("it went well"),
      (error: unknown) => (error as Error).message,
    );

  it("is checked, and then gets a private repository with a runner of its own", async () => {
    const { api, calls } = await serve();
    assert.equal(await checkGitea(api, soon()), "1.27.3");
    const made = await openGivenGitea(api, soon());
    assert.deepEqual(made.repository, { owner: "me", name: "demo-1" });
    assert.equal(made.runner.uuid, runner.uuid);
    calls.length = 0;
    assert.deepEqual(await made.remove(), { runners: 1, repositories: 1, problems: [] });
    assert.deepEqual(calls, removal);
  });

  const bad: readonly (readonly [string, Readonly<Record<string, Answer>>, RegExp])[] = [
    [
      "whose token is not accepted",
      { "GET /api/v1/version": { status: 401, body: { message: "no" } } },
      /does not accept the token/,
    ],
    [
      "that is too old",
      { "GET /api/v1/version": { status: 200, body: { version: "1.25.1" } } },
      /1\.25\.1 is too old/,
    ],
    ["that is none", { "GET /api/v1/version": { status: 404 } }, /is no Gitea/],
    ["that answers a page", { "GET /api/v1/version": { status: 200, body: "<html>" } }, /is it a Gitea/],
    [
      "that is elsewhere",
      { "GET /api/v1/version": { status: 301, location: "https://git.example/api/v1/version" } },
      /sends us to https:\/\/git\.example: give that address/,
    ],
  ];
  for (const [what, answers, message] of bad)
    it(`is refused if it is one ${what}`, async () => {
      const { api } = await serve(answers);
      const said = await failure(checkGitea(api, soon()));
      assert.match(said, message);
      assert.ok(!said.includes(token));
    });

  it("is refused if nobody listens there", async () => {
    const api = { url: `http://127.0.0.1:${await freePort()}`, token };
    assert.match(await failure(checkGitea(api, soon())), /cannot be reached: .*ECONNREFUSED/);
  });

  const off = { ...repository, has_actions: false };
  const failures: readonly (readonly [string, Readonly<Record<string, Answer>>, RegExp])[] = [
    [
      "Actions are disabled",
      {
        "POST /api/v1/user/repos": { status: 201, body: off },
        "PATCH /api/v1/repos/me/demo-1": { status: 200, body: off },
      },
      /Actions are disabled/,
    ],
    [
      "the token may not have a registration token",
      {
        "POST /api/v1/repos/me/demo-1/actions/runners/registration-token": {
          status: 403,
          body: { message: "no" },
        },
      },
      /refused a registration token for the repository \(403: no\)/,
    ],
    [
      "the runner cannot be registered",
      { "POST /api/actions/runner.v1.RunnerService/Register": { status: 500, body: {} } },
      /registering the runner: 500/,
    ],
  ];
  for (const [what, answers, message] of failures)
    it(`keeps nothing if ${what}`, async () => {
      const { api, calls } = await serve(answers);
      assert.match(await failure(openGivenGitea(api, soon())), message);
      assert.equal(calls.at(-1), removal[1]);
    });

  it("has Actions enabled for the repository where new ones come without", async () => {
    const { api } = await serve({ "POST /api/v1/user/repos": { status: 201, body: off } });
    assert.equal((await openGivenGitea(api, soon())).runner.id, "5");
  });

  for (const when of ["POST /api/v1/user/repos", "POST /api/actions/runner.v1.RunnerService/Register"])
    it(`keeps nothing if it is stopped during ${when}`, async () => {
      const stop = new AbortController();
      const { api, calls } = await serve({}, (call) => {
        if (call === when) stop.abort(new Error("stopped"));
      });
      assert.equal(await failure(openGivenGitea(api, stop.signal)), "stopped");
      assert.equal(calls.at(-1), removal[1]);
    });

  it("says what has to be removed by hand, and counts what is gone already as no work", async () => {
    const { api } = await serve({
      "DELETE /api/v1/repos/me/demo-1/actions/runners/5": { status: 404 },
      "DELETE /api/v1/repos/me/demo-1": { status: 500, body: { message: "disk full" } },
    });
    const { runners, repositories, problems } = await (await openGivenGitea(api, soon())).remove();
    assert.deepEqual([runners, repositories, problems.length], [0, 0, 1]);
    assert.match(problems[0] ?? "", /remove the repository me\/demo-1 by hand: .*disk full/);
  });
});
