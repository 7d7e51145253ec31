import assert from "node:assert/strict";
import { inspect } from "node:util";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, it } from "mocha";
import { OpenSandboxError } from "../../../controller/opensandbox/opensandbox-api.ts";
import { refusalOf } from "../../../controller/opensandbox/refusal.ts";
import { describeError } from "../../../controller/platform/errors.ts";
import type { FakeAnswer } from "../../fakes/opensandbox/answer.ts";
import {
  aNewSandbox,
  plantedKey,
  type ServedOpenSandbox,
  startServedOpenSandbox,
} from "../../support/served-opensandbox.ts";

const none = new AbortController().signal;
const planted = {
  capability: "planted-capability-0123456789",
  lines: 'planted first line\nand "second" line',
  argument: "--planted-argument-of-the-entrypoint",
  label: "planted-label-of-the-sandbox",
};
const sandbox = aNewSandbox({
  entrypoint: ["run", planted.argument],
  environment: { CAPABILITY: planted.capability, LINES: planted.lines },
  metadata: { "ci.ddupan.top/owner": "us", job: planted.label },
});
const body = {
  env: sandbox.environment,
  entrypoint: sandbox.entrypoint,
  metadata: sandbox.metadata,
  key: plantedKey,
};
const text = JSON.stringify(body);

function assertNothingOf(error: unknown): void {
  const all = [
    String(error),
    describeError(error),
    inspect(error, { depth: 10, showHidden: true }),
    JSON.stringify(error),
  ];
  // What stands before the stack's first line is the message again.
  for (const shown of all)
    for (const secret of [plantedKey, ...Object.values(planted), "planted first", "second"])
      assert.ok(!shown.includes(secret), shown);
}

describe("what the server repeats of a request", () => {
  let served: ServedOpenSandbox;
  beforeEach(async () => {
    served = await startServedOpenSandbox();
    served.server.pools.open("ci-vm", 1);
  });
  afterEach(() => served[Symbol.asyncDispose]());

  const failed = async (answer?: FakeAnswer) => {
    if (answer !== undefined) served.server.failNext("create", answer);
    const error = await served.api.create(sandbox, none).catch((reason: unknown) => reason);
    assert.ok(error instanceof OpenSandboxError, "it did not fail");
    assertNothingOf(error);
    return error;
  };
  const mistake = {
    type: "string_type",
    loc: ["body", "env", "CAPABILITY"],
    msg: "Input should be a string",
  };
  const answers: Readonly<Record<string, FakeAnswer>> = {
    "a message": { status: 400, body: { code: "SANDBOX::INVALID_PARAMETER", message: `you sent ${text}` } },
    "a message that is cut off": { status: 500, body: { code: "X", message: text.slice(0, 60) } },
    "a code": { status: 400, body: { code: plantedKey, message: planted.capability } },
    "a code in capitals": { status: 400, body: { code: "PLANTED key", message: "" } },
    "an input": { status: 422, body: { detail: [{ ...mistake, input: body, ctx: { given: text } }] } },
    "what is wrong with an input": { status: 422, body: { detail: [{ ...mistake, msg: text }] } },
    "a place in an input": {
      status: 422,
      body: { detail: [{ ...mistake, loc: ["body", planted.capability] }] },
    },
    "a detail": { status: 404, body: { detail: text } },
    text: { status: 500, body: text },
    "a page": { status: 502, body: `<html>${text}</html>` },
    "no JSON with a status of success": { status: 202, body: text.slice(1) },
    "the state of a sandbox": { status: 202, body: { id: "a", status: planted.capability } },
    "the metadata of a sandbox": {
      status: 202,
      body: { id: "a", status: { state: "Running" }, metadata: { [planted.capability]: 5 } },
    },
  };
  for (const [what, answer] of Object.entries(answers))
    it(`is left out of an error: ${what}`, async () => {
      await failed(answer);
    });

  it("says of what cannot be read where it stands and what is wrong, and no more", async () => {
    const { message } = await failed(answers["an input"]);
    assert.equal(
      message,
      "POST /sandboxes: body.env.CAPABILITY: Input should be a string (string_type) (422, request request-1)",
    );
  });

  it("keeps the words around it", async () => {
    const { message } = await failed({
      status: 400,
      body: {
        code: "SANDBOX::INVALID_METADATA_LABEL",
        message: `the value '${planted.label}' of job is invalid`,
      },
    });
    assert.match(
      message,
      /: the value '\[redacted\]' of job is invalid \(400 SANDBOX::INVALID_METADATA_LABEL, /,
    );
  });

  it("is left out of the server's own words for a sandbox's state", async () => {
    const status = { state: "Running", reason: "RUNNING", message: `started with ${text}` };
    served.server.failNext("create", { status: 202, body: { id: "a", status } });
    const { words } = await served.api.create(sandbox, none);
    assertNothingOf(words);
    assert.match(words, /^Running\/RUNNING: started with /);
  });

  it("is left out of what the fake says of a wrong label, as the real one does", async () => {
    const wrong = { ...sandbox, metadata: { ...sandbox.metadata, job: `${planted.label}\n` } };
    const error: unknown = await served.api.create(wrong, none).catch((reason: unknown) => reason);
    assert.ok(error instanceof OpenSandboxError);
    assertNothingOf(error);
  });

  it("is left out of errors of calls that only sent the key", async () => {
    served.server.failNext("list", { status: 500, body: { code: "X", message: `your key ${plantedKey}` } });
    const error: unknown = await served.api.list({ a: "b" }, none).catch((reason: unknown) => reason);
    assertNothingOf(error);
    assert.match(describeError(error), /your key \[redacted\]/);
  });

  it("is left out, and is judged, whatever form a refusal has", () => {
    const part = fc.oneof(
      fc.constantFrom(...Object.values(planted), plantedKey, text),
      fc.string(),
      fc.jsonValue(),
    );
    const answer = fc.oneof(
      fc.record({ code: part, message: part, detail: part }, { requiredKeys: [] }),
      fc.record({ detail: fc.array(fc.record({ type: part, loc: fc.array(part), msg: part, input: part })) }),
      part,
    );
    const asked = {
      what: "POST /sandboxes",
      requestId: "request-1",
      isCreate: true,
      hidden: [plantedKey, ...Object.values(planted)],
    };
    fc.assert(
      fc.property(answer, fc.integer({ min: 100, max: 599 }), fc.nat({ max: 1 }), (value, status, cut) => {
        const sent = JSON.stringify(value);
        const error = refusalOf(asked, { status, text: sent.slice(0, sent.length - cut) });
        assertNothingOf(error);
        assert.ok(error.message.endsWith("request request-1)") && error.message.length < 600);
        if (status === 401) assert.equal(error.trouble, "unauthorized");
        if (status >= 501 && status !== 504) assert.equal(error.trouble, "outage");
      }),
    );
  });
});
