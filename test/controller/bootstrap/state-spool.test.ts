import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { nextTurn, type StateCall, withAnswer } from "../../../controller/bootstrap/state-calls.ts";
import {
  answerTo,
  initialState,
  type StateSpool,
  withoutRunner,
  withReport,
} from "../../../controller/bootstrap/state-spool.ts";
import { defaultTimes } from "../../../controller/bootstrap/times.ts";
import { Result, UpdateTaskResponseSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { aReport } from "../../support/runner-reports.ts";

const start = Date.parse("2026-01-01T00:00:00Z");
const mebibyte = 1024 * 1024;

const fresh = (ended: Result = Result.UNSPECIFIED) => initialState(42n, ended, start);
const reported = (spool: StateSpool, ...args: Parameters<typeof aReport>) =>
  withReport(spool, aReport(...args), false, start);
const turnOf = (spool: StateSpool, now = start, logDone = true) =>
  nextTurn(spool, now, logDone, defaultTimes);
const callOf = (spool: StateSpool, now = start, logDone = true): StateCall => {
  const turn = turnOf(spool, now, logDone);
  assert.equal(turn.kind, "call");
  return turn.kind === "call" ? turn.call : assert.fail();
};
const answers = (spool: StateSpool, result: Result, sentOutputs: string[] = [], call = callOf(spool)) =>
  withAnswer(
    spool,
    call,
    create(UpdateTaskResponseSchema, { state: { id: 42n, result }, sentOutputs }),
    start,
  );

/** Gitea's side of a task. The number of a report is the length of its step's log. */
function createTask() {
  const outputs = new Map<string, string>();
  const told: bigint[] = [];
  let result: Result = Result.UNSPECIFIED;
  const take = ({ state, request }: StateCall) => {
    told.push(state.steps[0]?.logLength ?? 0n);
    if (result === Result.UNSPECIFIED) ({ result } = state);
    for (const [name, value] of Object.entries(request.outputs))
      if (!outputs.has(name)) outputs.set(name, value);
    return create(UpdateTaskResponseSchema, { state: { id: 42n, result }, sentOutputs: [...outputs.keys()] });
  };
  return { outputs, told, take, result: () => result };
}

type Event =
  | { readonly kind: "report"; readonly outputs: Readonly<Record<string, string>>; readonly result: Result }
  | { readonly kind: "call"; readonly outcome: "answered" | "lost" | "not arrived" }
  | { readonly kind: "answer" };

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("report" as const),
      outputs: fc.dictionary(fc.constantFrom("a", "b", "c", "d", "e"), fc.string()),
      result: fc.constantFrom(...Array<Result>(20).fill(Result.UNSPECIFIED), Result.SUCCESS, Result.FAILURE),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("call" as const),
      outcome: fc.constantFrom("answered" as const, "lost" as const, "not arrived" as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("answer" as const) }) },
);

describe("the state spool", () => {
  it("brings all outputs, the last steps and the first result to Gitea, and never an earlier state behind a later", () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60, size: "max" }), (events) => {
        const task = createTask();
        const wanted = new Map<string, string>();
        let spool = fresh();
        let reports = 0;
        let result: Result = Result.UNSPECIFIED;
        // Reports go on coming while a call is in flight.
        let flying:
          { readonly call: StateCall; readonly outcome: "answered" | "lost" | "not arrived" } | undefined;
        const land = () => {
          if (flying === undefined) return;
          const { call, outcome } = flying;
          flying = undefined;
          if (outcome === "not arrived") return;
          const answer = task.take(call);
          if (outcome === "answered") spool = withAnswer(spool, call, answer, start);
        };
        const report = (outputs: Readonly<Record<string, string>>, said: Result) => {
          if (result !== Result.UNSPECIFIED) return;
          for (const [name, value] of Object.entries(outputs)) if (!wanted.has(name)) wanted.set(name, value);
          const steps = [{ id: 0n, logLength: BigInt(++reports) }];
          const one = aReport({ result: said, steps }, { ...outputs });
          spool = withReport(spool, one, false, start);
          assert.deepEqual(answerTo(one, spool).sentOutputs, Object.keys(outputs));
          result = said;
        };
        for (const one of events) {
          if (one.kind === "report") report(one.outputs, one.result);
          else if (one.kind === "answer") land();
          else if (flying === undefined) {
            const turn = turnOf(spool);
            if (turn.kind === "call") flying = { call: turn.call, outcome: one.outcome };
          }
        }
        land();
        report({}, Result.CANCELLED);
        for (let rounds = 0; spool.final.kind !== "delivered"; rounds++) {
          assert.ok(rounds < 10, "it does not come to an end");
          flying = { call: callOf(spool), outcome: "answered" };
          land();
        }
        assert.deepEqual(new Map(task.outputs), wanted);
        assert.equal(task.result(), result);
        assert.equal(task.told.at(-1), BigInt(reports));
        assert.deepEqual(
          task.told,
          task.told.toSorted((a, b) => Number(a - b)),
        );
      }),
      { numRuns: 500 },
    );
  });

  it("says nothing new, waits for the next beat, and says the last state again then", () => {
    const steps = [{ id: 0n }, { id: 1n }];
    const spool = answers(reported(fresh(), { steps }), Result.UNSPECIFIED);
    assert.deepEqual(turnOf(spool, start + 4_000), { kind: "wait", ms: 6_000 });
    assert.equal(callOf(spool, start + 10_000).state.steps.length, 2);
    assert.deepEqual(turnOf(fresh()), { kind: "wait", ms: 10_000 });
  });

  it("does not wait for the log with a state that tells something new", () => {
    assert.equal(turnOf(reported(fresh()), start, false).kind, "call");
  });

  it("says again what no answered call has said", () => {
    const spool = reported(fresh());
    const call = callOf(spool);
    const later = reported(spool, { steps: [{ id: 0n }] });
    assert.equal(callOf(answers(later, Result.UNSPECIFIED, [], call)).state.steps.length, 1);
  });

  it("keeps the result for the log, two minutes at most, and beats meanwhile", () => {
    const spool = reported(fresh(), { result: Result.SUCCESS });
    assert.deepEqual(turnOf(spool, start, false), { kind: "wait", ms: 10_000 });
    assert.equal(callOf(spool, start + 10_000, false).state.result, Result.UNSPECIFIED);
    assert.equal(callOf(spool, start + 10_000, true).state.result, Result.SUCCESS);
    const beaten = { ...spool, answeredAt: start + 115_000 };
    assert.deepEqual(turnOf(beaten, start + 119_000, false), { kind: "wait", ms: 1_000 });
    assert.equal(callOf(beaten, start + 120_000, false).state.result, Result.SUCCESS);
  });

  it("is over when the facade has taken the result, and knows what Gitea made of it", () => {
    const spool = reported(fresh(), { result: Result.SUCCESS });
    assert.deepEqual(answers(spool, Result.CANCELLED).final, { kind: "delivered", result: Result.CANCELLED });
    assert.deepEqual(answers(spool, Result.UNSPECIFIED).final, { kind: "delivered", result: Result.SUCCESS });
    assert.deepEqual(turnOf(answers(spool, Result.SUCCESS)), { kind: "over" });
  });

  it("answers a result with itself, also when it comes again", () => {
    const first = reported(fresh(), { result: Result.SUCCESS });
    const again = aReport({ result: Result.FAILURE });
    const spool = withReport(first, again, true, start);
    assert.equal(answerTo(again, spool).state?.result, Result.SUCCESS);
    assert.equal(callOf(spool).state.result, Result.SUCCESS);
  });

  it("tells gitea-runner to wind up, in the only way that every version heeds, however Gitea ended the job", () => {
    const spool = answers(reported(fresh()), Result.FAILURE);
    assert.equal(answerTo(aReport(), spool).state?.result, Result.CANCELLED);
    // An answer that says nothing of it does not take it back.
    assert.equal(
      answerTo(aReport(), answers(reported(spool), Result.UNSPECIFIED)).state?.result,
      Result.CANCELLED,
    );
    assert.equal(answerTo(aReport(), fresh()).state?.result, Result.UNSPECIFIED);
  });

  it("has always a time of the end in a result", () => {
    const { state } = callOf(reported(fresh(), { result: Result.SUCCESS }));
    assert.equal(state.stoppedAt && timestampMs(state.stoppedAt), start);
  });

  it("keeps the steps that it knows when a report has none", () => {
    const spool = reported(reported(fresh(), { steps: [{ id: 0n }, { id: 1n }] }), {
      result: Result.FAILURE,
    });
    assert.equal(callOf(spool).state.steps.length, 2);
  });

  it("makes a failure of a job whose gitea-runner ended without a word, unless Gitea has ended it", () => {
    const steps = [{ id: 0n, result: Result.SUCCESS }];
    const resultsOf = ({ state }: StateCall) => [state.result, ...state.steps.map((step) => step.result)];
    const spool = withoutRunner(reported(fresh(), { steps }), 2, false, start);
    assert.deepEqual(resultsOf(callOf(spool)), [Result.FAILURE, Result.SUCCESS, Result.CANCELLED]);
    const ended = answers(spool, Result.CANCELLED, [], callOf(spool, start + 10_000, false));
    assert.deepEqual(resultsOf(callOf(ended)), [Result.CANCELLED, Result.SUCCESS, Result.CANCELLED]);
    const own = withoutRunner(reported(fresh(), { result: Result.SUCCESS }), 2, false, start);
    assert.deepEqual(resultsOf(callOf(own)), [Result.SUCCESS]);
  });
});

describe("the outputs in the state spool", () => {
  const namesOf = ({ request }: StateCall) => Object.keys(request.outputs);

  it("go with each call until Gitea confirms them", () => {
    const spool = reported(fresh(), {}, { version: "1.2", image: "x" });
    assert.deepEqual(namesOf(callOf(spool)), ["version", "image"]);
    const later = answers(spool, Result.UNSPECIFIED, ["version", "image"]);
    assert.deepEqual(namesOf(callOf(reported(later, {}, { version: "1.2", image: "x" }))), []);
  });

  it("go once more with the result when Gitea has passed them over, and not with each beat", () => {
    const spool = answers(reported(fresh(), {}, { long: "x" }), Result.UNSPECIFIED);
    assert.deepEqual(namesOf(callOf(spool, start + 10_000)), []);
    const last = callOf(reported(spool, { result: Result.SUCCESS }));
    assert.deepEqual([namesOf(last), last.state.result], [["long"], Result.SUCCESS]);
  });

  it("go before the result as far as one call cannot hold them", () => {
    const outputs = Object.fromEntries(
      Array.from({ length: 20 }, (_, index) => [`o${index}`, "x".repeat(mebibyte)]),
    );
    let spool = reported(fresh(), { result: Result.SUCCESS }, outputs);
    const sizes: (readonly [number, Result])[] = [];
    while (spool.final.kind !== "delivered") {
      const call = callOf(spool);
      sizes.push([namesOf(call).length, call.state.result]);
      spool = answers(spool, call.state.result, namesOf(call), call);
    }
    assert.deepEqual(sizes, [
      [7, Result.UNSPECIFIED],
      [7, Result.UNSPECIFIED],
      [6, Result.SUCCESS],
    ]);
  });

  it("are held whatever their number, and one that is larger than a call goes alone", () => {
    const spool = reported(fresh(), {}, { huge: "x".repeat(9 * mebibyte), small: "y" });
    assert.deepEqual(namesOf(callOf(spool)), ["huge"]);
  });
});
