import { appendFileSync, readFileSync } from "node:fs";

/**
 * A stand-in for the program gitea-runner, started as `daemon --config <file> --once`: it reads `.runner`, fetches
 * its task and plays the part that `FAKE_RUNNER_PART` names. What it was started with goes to the file
 * `FAKE_RUNNER_TRACE`, as one line of JSON. It speaks the JSON form of the protocol, so it needs no packages.
 */
type Answer = { readonly task?: { readonly id: string }; readonly state?: { readonly result?: string } };

const {
  FAKE_RUNNER_PART: part = "",
  FAKE_RUNNER_TRACE: trace = "",
  FAKE_RUNNER_FILE: file = "",
} = process.env;
const registration = JSON.parse(readFileSync(file, "utf8")) as { address: string; labels: string[] };
appendFileSync(
  trace,
  `${JSON.stringify({ argv: process.argv.slice(2), environment: process.env, registration })}\n`,
);

const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());

async function call(method: string, request: unknown): Promise<Answer> {
  const response = await fetch(`${registration.address}/api/actions/runner.v1.RunnerService/${method}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(request),
  });
  if (!response.ok) throw new Error(`${method}: ${await response.text()}`);
  return (await response.json()) as Answer;
}

const labels = registration.labels.map((label) => label.replace(/:host$/, ""));
await call("Declare", { version: "fake", labels });
const { task } = await call("FetchTask", {});
if (task === undefined) throw new Error("no task");
const { id } = task;

const time = new Date().toISOString();
const running = [{ id: 0, startedAt: time, logIndex: 0, logLength: 2 }, { id: 1 }];
const done = running.map((step) => ({ ...step, result: "RESULT_SUCCESS", startedAt: time, stoppedAt: time }));
const log = (index: number, rows: readonly string[], noMore = false) =>
  call("UpdateLog", { taskId: id, index, noMore, rows: rows.map((content) => ({ time, content })) });
const state = (steps: unknown, result?: string) =>
  call("UpdateTask", { state: { id, steps, ...(result === undefined ? {} : { result, stoppedAt: time }) } });

await log(0, ["first", "second"]);
await state(running);

switch (part) {
  case "succeeds":
    await log(2, ["third"], true);
    await state(done, "RESULT_SUCCESS");
    break;
  case "dies":
    process.exit(3);
    break;
  case "waits": {
    let heard: string | undefined;
    while (!stop.signal.aborted && (heard ?? "RESULT_UNSPECIFIED") === "RESULT_UNSPECIFIED") {
      await new Promise((resolve) => setTimeout(resolve, 10));
      heard = (await state(running)).state?.result;
    }
    await log(2, [stop.signal.aborted ? "stopped" : `heard ${heard ?? ""}`], true);
    await state(running, "RESULT_CANCELLED");
    break;
  }
  default:
    throw new Error(`no such part: ${part}`);
}
