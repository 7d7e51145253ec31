import assert from "node:assert/strict";
import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  fromJson,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { before, describe, it } from "mocha";
import * as z from "zod";
import { PingService } from "../../proto/gen/ping/v1/ping_pb.ts";
import { Result, RunnerService, type Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import { describeFailure } from "../../controller/assignment/failure.ts";
import { readTask } from "../../controller/protocol/read-task.ts";
import { awaitJobs } from "../../scripts/peers/gitea-api/await-run.ts";
import { askGitea, askGiteaForText } from "../../scripts/peers/gitea-api/client.ts";
import {
  createRepository,
  pushFiles,
  repositoryPath,
  type Repository,
} from "../../scripts/peers/gitea-api/repository.ts";
import { listJobs } from "../../scripts/peers/gitea-api/runs.ts";
import { logIn } from "../../scripts/peers/gitea-api/web-session.ts";
import { useGitea } from "../support/gitea.ts";

/** Begins when it is asked for: this file may be loaded long before its tests run. */
const soon = () => AbortSignal.timeout(120_000);
const at = Date.parse("2026-01-02T03:04:05.250Z");
const codecs = ["binary", "json"] as const;
type Codec = (typeof codecs)[number];

const workflow = `
on:
  workflow_dispatch:
    inputs:
      label: { type: string }
env: { FROM_WORKFLOW: here }
jobs:
  first:
    runs-on: ["\${{ inputs.label }}", self-hosted]
    outputs: { word: "\${{ steps.say.outputs.word }}" }
    steps:
      - { id: say, run: echo one }
      - { run: "echo \${{ secrets.DEPLOY_KEY }} \${{ vars.PLACE }}" }
  second:
    needs: [first]
    strategy: { matrix: { size: [small, large] } }
    runs-on: ["\${{ inputs.label }}", "\${{ matrix.size }}"]
    steps: [{ run: "echo \${{ needs.first.outputs.word }}" }]
`;
const caller = `
on: workflow_dispatch
jobs:
  call:
    uses: ./.gitea/workflows/called.yml
`;
const called = `
on: workflow_call
jobs:
  inner:
    runs-on: [self-hosted, pod]
    steps: [{ run: echo }]
`;
/** The anchor stands in another job than its alias. */
const anchors = `
on: workflow_dispatch
jobs:
  a:
    runs-on: &where [self-hosted, pod]
    steps: [{ run: echo }]
  b:
    runs-on: *where
    steps: [{ run: echo }]
`;

describe("Gitea's wire format, message by message", () => {
  const real = useGitea();
  let registrationToken: string;
  let repository: Repository;

  before("make a repository with a secret, a variable and workflows", async () => {
    const output = await real.gitea.command(["actions", "generate-runner-token"], soon());
    registrationToken = output.trim().split("\n").at(-1) ?? "";
    repository = await createRepository(real.admin, { name: "wire" }, soon());
    const where = repositoryPath(repository);
    const ask = (method: "PUT" | "POST", path: string, body: unknown) =>
      askGiteaForText(real.admin, { method, path: `${where}/actions/${path}`, body }, soon());
    await ask("PUT", "secrets/DEPLOY_KEY", { data: "hush" });
    await ask("POST", "variables/PLACE", { value: "Oslo" });
    const files = {
      ".gitea/workflows/wire.yml": workflow,
      ".gitea/workflows/caller.yml": caller,
      ".gitea/workflows/called.yml": called,
      ".gitea/workflows/anchors.yml": anchors,
    };
    await pushFiles(real.admin, repository, { files }, soon());
  });

  const dispatch = async (file: string, inputs: Record<string, string> = {}) => {
    const path = `${repositoryPath(repository)}/actions/workflows/${file}/dispatches?return_run_details=true`;
    const body = { ref: "main", inputs };
    const schema = z.object({ workflow_run_id: z.int() });
    return (await askGitea(real.admin, { method: "POST", path, body }, schema, soon())).workflow_run_id;
  };

  /** One call without a client library, so that what came is seen as it came. Nothing of it may be unknown to us. */
  async function call<I extends DescMessage, O extends DescMessage>(
    codec: Codec,
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    credentials: { readonly uuid: string; readonly token: string } = { uuid: "", token: "" },
  ): Promise<MessageShape<O>> {
    const message = create(method.input, request);
    const response = await fetch(`${real.gitea.url}/api/actions/${method.parent.typeName}/${method.name}`, {
      method: "POST",
      headers: {
        "content-type": codec === "binary" ? "application/proto" : "application/json",
        "connect-protocol-version": "1",
        "x-runner-uuid": credentials.uuid,
        "x-runner-token": credentials.token,
      },
      body:
        codec === "binary"
          ? Buffer.from(toBinary(method.input, message))
          : JSON.stringify(toJson(method.input, message)),
    });
    const bytes = new Uint8Array(await response.arrayBuffer());
    assert.equal(response.status, 200, Buffer.from(bytes).toString());
    if (codec === "binary") {
      const answer = fromBinary(method.output, bytes);
      assert.deepEqual(unknownFields(method.output, answer), []);
      assert.deepEqual(fromBinary(method.output, toBinary(method.output, answer)), answer);
      return answer;
    }
    const json = JSON.parse(Buffer.from(bytes).toString("utf8")) as JsonValue;
    // Refuses fields that we do not know.
    const answer = fromJson(method.output, json);
    assert.deepEqual(toJson(method.output, answer), json);
    return answer;
  }

  const register = async (codec: Codec, ephemeral = false) => {
    const label = `wire-${codec}-${ephemeral}`;
    const request = {
      name: "wire",
      token: registrationToken,
      version: "wire/1",
      labels: [label, "self-hosted", "small", "large"],
      ephemeral,
      capabilities: ["cancelling"],
    };
    const { runner } = await call(codec, RunnerService.method.register, request);
    assert.ok(runner !== undefined);
    return { runner, label };
  };

  /** What differs between two runs of one workflow. */
  const comparable = (task: Task) => {
    const { context, secrets, needs, vars } = task;
    const varying = /^(token|gitea_runtime_token|run_id|run_number|event)$/;
    return {
      context: Object.fromEntries(Object.entries(context ?? {}).filter(([key]) => !varying.test(key))),
      secrets: Object.keys(secrets).toSorted(),
      needs,
      vars,
      payload: payloadOf(task).replaceAll(/wire-(binary|json)/g, "wire"),
    };
  };

  const seen: Partial<Record<Codec, ReturnType<typeof comparable>[]>> = {};

  for (const codec of codecs)
    describe(`as ${codec}`, () => {
      it("Ping", async () => {
        assert.equal((await call(codec, PingService.method.ping, { data: "you" })).data, "Hello, you!");
      });

      it("Register and Declare", async () => {
        const { runner, label } = await register(codec, true);
        assert.ok(runner.id > 0n);
        assert.match(runner.uuid, /^[0-9a-f-]{36}$/);
        assert.match(runner.token, /^[0-9a-f]{40}$/);
        assert.deepEqual([runner.name, runner.version, runner.ephemeral], ["wire", "wire/1", true]);
        assert.deepEqual(runner.labels, [label, "self-hosted", "small", "large"]);
        const request = { version: "wire/2", labels: ["other"], capabilities: ["cancelling"] };
        const declared = (await call(codec, RunnerService.method.declare, request, runner)).runner;
        assert.deepEqual([declared?.id, declared?.uuid, declared?.token], [runner.id, runner.uuid, ""]);
        assert.deepEqual([declared?.version, declared?.labels], ["wire/2", ["other"]]);
      });

      it("FetchTask, UpdateTask and UpdateLog, through a job with needs", async () => {
        const { runner, label } = await register(codec);
        const run = await dispatch("wire.yml", { label });
        const fetched = await call(codec, RunnerService.method.fetchTask, { tasksVersion: 0n }, runner);
        const { task } = fetched;
        assert.ok(task !== undefined && fetched.tasksVersion > 0n);
        assert.deepEqual(task.vars, { PLACE: "Oslo" });
        assert.equal(task.secrets["DEPLOY_KEY"], "hush");
        assert.deepEqual(task.needs, {});
        assert.match(payloadOf(task), /FROM_WORKFLOW: here/);
        assert.equal(task.context?.["job"], "first");
        const { id } = task;

        const rows = ["one", "two", "three"].map((content, i) => ({
          content,
          time: timestampFromMs(at + i),
        }));
        const log = (request: object) =>
          call(codec, RunnerService.method.updateLog, { taskId: id, ...request }, runner);
        assert.equal((await log({ index: 0n, rows: rows.slice(0, 2) })).ackIndex, 2n);
        assert.equal((await log({ index: 2n, rows: rows.slice(2), noMore: true })).ackIndex, 3n);

        const steps = [
          {
            id: 0n,
            result: Result.SUCCESS,
            startedAt: timestampFromMs(at),
            stoppedAt: timestampFromMs(at + 60_000),
            logIndex: 0n,
            logLength: 1n,
          },
          {
            id: 1n,
            result: Result.SKIPPED,
            startedAt: timestampFromMs(at),
            stoppedAt: timestampFromMs(at + 120_000),
            logIndex: 1n,
            logLength: 2n,
          },
        ];
        const stoppedAt = timestampFromMs(Date.now());
        const end = await call(
          codec,
          RunnerService.method.updateTask,
          {
            state: { id, result: Result.SUCCESS, startedAt: timestampFromMs(at), stoppedAt, steps },
            outputs: { word: "hello" },
          },
          runner,
        );
        assert.deepEqual([end.state?.id, end.state?.result, end.sentOutputs], [id, Result.SUCCESS, ["word"]]);

        const page = await jobPage(run);
        assert.deepEqual(
          page.steps.map(({ status, duration }) => [status, duration]),
          [
            ["success", "1m0s"],
            ["skipped", "2m0s"],
          ],
        );
        assert.deepEqual(
          page.logs.map(({ lines }) => lines.map(({ message }) => message)),
          [["one"], ["two", "three"]],
        );
        assert.equal(Math.floor((page.logs[1]?.lines[0]?.timestamp ?? 0) * 1000), timestampMs(rows[1]!.time));

        // Both legs of the matrix, once the job that they need has ended.
        const fits = (jobs: readonly { name: string; status: string }[]) =>
          jobs.filter(({ name, status }) => name.startsWith("second") && status === "queued").length === 2;
        await awaitJobs(real.admin, repository, { run, fits, deadlineMs: 60_000 }, soon());
        const legs: Task[] = [];
        for (let i = 0; i < 2; i++) {
          const leg = await call(codec, RunnerService.method.fetchTask, {}, runner);
          assert.ok(leg.task !== undefined);
          assert.deepEqual(leg.task.needs["first"]?.outputs, { word: "hello" });
          assert.equal(leg.task.needs["first"].result, Result.SUCCESS);
          legs.push(leg.task);
        }
        seen[codec] = [task, ...legs].map(comparable);
        for (const leg of legs)
          await call(
            codec,
            RunnerService.method.updateTask,
            { state: { id: leg.id, result: Result.CANCELLED, stoppedAt } },
            runner,
          );
      });
    });

  describe("in both forms", () => {
    it("says the same", () => {
      assert.ok(seen.binary !== undefined && seen.json !== undefined);
      assert.deepEqual(seen.binary, seen.json);
    });
  });

  describe("tasks that we read", () => {
    const readOf = (task: Task | undefined) => {
      assert.ok(task !== undefined);
      return readTask({ trustDomain: "example.org", allowForksOnPods: false }, task);
    };
    const fetchOne = async (labels: readonly string[]) => {
      const { runner } = await register("binary");
      const declare = { version: "1", labels: [...labels], capabilities: ["cancelling"] };
      await call("binary", RunnerService.method.declare, declare, runner);
      const next = async () => (await call("binary", RunnerService.method.fetchTask, {}, runner)).task;
      return next;
    };

    it("may come from a reusable workflow", async () => {
      const next = await fetchOne(["self-hosted", "pod"]);
      const run = await dispatch("caller.yml");
      const fits = (jobs: readonly { status: string; labels?: readonly string[] | null | undefined }[]) =>
        jobs.some(({ status, labels }) => status === "queued" && labels?.includes("pod") === true);
      await awaitJobs(real.admin, repository, { run, fits, deadlineMs: 60_000 }, soon());
      const task = await next();
      const reading = readOf(task);
      assert.ok(reading.ok, reading.ok ? "" : describeFailure(reading.failure));
      assert.equal(reading.assignment.backend, "pod");
      assert.equal(reading.assignment.trust, "branch");
      assert.equal(reading.assignment.spiffeId, "spiffe://example.org/ci/admin1/wire/inner");
    });

    it("may have got their labels through a YAML alias", async () => {
      const next = await fetchOne(["self-hosted", "pod"]);
      await dispatch("anchors.yml");
      const readings = [readOf(await next()), readOf(await next())];
      assert.deepEqual(
        readings
          .map((reading) => (reading.ok ? reading.assignment.jobKey : reading.failure.reason))
          .toSorted(),
        ["a", "b"],
      );
    });
  });

  /** What the page of a run's first job shows. */
  const pageSchema = z.object({
    state: z.object({
      currentJob: z.object({
        steps: z.array(z.object({ status: z.string(), duration: z.string() })),
      }),
    }),
    logs: z.object({
      stepsLog: z
        .array(z.object({ lines: z.array(z.object({ message: z.string(), timestamp: z.number() })) }))
        .nullable(),
    }),
  });
  const jobPage = async (run: number) => {
    const session = await logIn(real.admin, soon());
    const { owner, name } = repository;
    const [job] = await listJobs(real.admin, repository, run, soon());
    const response = await fetch(`${real.gitea.url}/${owner}/${name}/actions/runs/${run}/jobs/${job?.id}`, {
      method: "POST",
      headers: { cookie: session.cookie, "content-type": "application/json" },
      body: JSON.stringify({ logCursors: [1, 2].map((step) => ({ step, cursor: null, expanded: true })) }),
      signal: soon(),
    });
    const text = await response.text();
    assert.equal(response.status, 200, text.slice(0, 300));
    const { state, logs } = pageSchema.parse(JSON.parse(text));
    // Gitea puts one of its own before and one behind.
    return { steps: state.currentJob.steps.slice(1, -1), logs: logs.stepsLog ?? [] };
  };
});

function payloadOf(task: Task): string {
  return Buffer.from(task.workflowPayload ?? []).toString("utf8");
}

/** Every field in a message, at any depth, that our protos do not name. */
function unknownFields(desc: DescMessage, message: MessageShape<DescMessage>, where = desc.name): string[] {
  const own = (message.$unknown ?? []).map(({ no }) => `${where}.${no}`);
  const values = reflect(desc, message);
  const inner = desc.fields.flatMap((field) => {
    const path = `${where}.${field.name}`;
    if (!values.isSet(field) || field.message === undefined) return [];
    const type = field.message;
    const value: unknown = values.get(field);
    const all =
      field.fieldKind === "message" ? [value] : [...(value as { values(): Iterable<unknown> }).values()];
    return all.flatMap((one) =>
      typeof one === "object" && one !== null && "message" in one
        ? unknownFields(type, one.message as MessageShape<DescMessage>, path)
        : [],
    );
  });
  return [...own, ...inner];
}
