import assert from "node:assert/strict";
import { Code } from "@connectrpc/connect";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { defaultTimes } from "../../../controller/bootstrap/times.ts";
import { Result } from "../../../proto/gen/runner/v1/runner_pb.ts";
import type { FacadeRpc } from "../../fakes/fake-facade.ts";
import { facadeInMemory } from "../../support/facade-in-memory.ts";
import { aReport, someRows } from "../../support/runner-reports.ts";

type Event =
  | { readonly kind: "rows"; readonly count: number; readonly heard: boolean }
  | { readonly kind: "state"; readonly output: number }
  | { readonly kind: "time"; readonly ms: number }
  /** A moment in which calls get one step further. */
  | { readonly kind: "moment" }
  | {
      readonly kind: "fault";
      readonly rpc: FacadeRpc;
      readonly fault: "fails" | "hangs" | "loses its answer";
    };

const rpc = fc.constantFrom<FacadeRpc>("updateLog", "updateTask");

const event: fc.Arbitrary<Event> = fc.oneof(
  fc.record({ kind: fc.constant("rows" as const), count: fc.nat(5), heard: fc.boolean() }),
  fc.record({ kind: fc.constant("state" as const), output: fc.nat(9) }),
  fc.record({ kind: fc.constant("moment" as const) }),
  fc.record({ kind: fc.constant("time" as const), ms: fc.constantFrom(1, 1_000, 2_000, 10_000, 60_000) }),
  fc.record({
    kind: fc.constant("fault" as const),
    rpc,
    fault: fc.constantFrom("fails" as const, "hangs" as const, "loses its answer" as const),
  }),
);

describe("a relay whose calls fail, hang and lose their answers", () => {
  it("brings every row once and in order, every output, and the last steps with the result", () =>
    fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 25, size: "max" }), async (events) => {
        const { clock, facade, newRelay } = facadeInMemory({ logRows: 3 });
        const relay = newRelay();
        const written: string[] = [];
        const outputs = new Set<string>();
        let heard = 0;
        const waiting: Promise<unknown>[] = [];
        for (const one of events) {
          switch (one.kind) {
            case "rows": {
              for (let i = 0; i < one.count; i++) written.push(`row ${written.length}`);
              const { ackIndex } = await relay.updateLog(someRows(heard, written.slice(heard)));
              if (one.heard) heard = Number(ackIndex);
              break;
            }
            case "state": {
              const name = `o${one.output}`;
              outputs.add(name);
              const steps = [{ id: 0n, logLength: BigInt(written.length) }];
              waiting.push(relay.updateTask(aReport({ steps }, { [name]: "x" })));
              break;
            }
            case "moment":
              await Promise.resolve();
              break;
            case "time":
              await clock.step(one.ms);
              break;
            case "fault":
              if (one.fault === "fails") facade.failNext(one.rpc, Code.Unavailable);
              else if (one.fault === "hangs") facade.hangNext(one.rpc);
              else facade.loseNextAnswer(one.rpc);
              break;
            default:
              one satisfies never;
          }
        }
        assert.equal(
          (await relay.updateLog(someRows(heard, [...written.slice(heard), "last"], true))).ackIndex,
          BigInt(written.length + 1),
        );
        const steps = [{ id: 0n, logLength: BigInt(written.length) }, { id: 1n }];
        await relay.updateTask(aReport({ result: Result.SUCCESS, steps }));
        relay.close(2, "never told");
        await clock.step(defaultTimes.deliver);
        await Promise.all([relay.sending, ...waiting]);
        assert.deepEqual(facade.rows, [...written, "last"]);
        assert.equal(relay.result(), Result.SUCCESS);
        const last = facade.states.at(-1)?.state;
        assert.deepEqual([last?.steps.length, last?.result], [2, Result.SUCCESS]);
        const told = facade.states.map(({ state }) => Number(state?.steps[0]?.logLength ?? 0));
        assert.deepEqual(
          told,
          told.toSorted((a, b) => a - b),
        );
        assert.deepEqual(new Set(facade.states.flatMap((state) => Object.keys(state.outputs))), outputs);
      }),
      { numRuns: 60 },
    )).timeout(60_000);
});
