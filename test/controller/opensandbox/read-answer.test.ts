import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import {
  isName,
  type Page,
  readPage,
  readPool,
  readSandbox,
} from "../../../controller/opensandbox/read-answer.ts";
import type { Pool, Sandbox } from "../../../controller/opensandbox/opensandbox-api.ts";

const document = {
  id: "0b0e7b1c-0000-4000-8000-000000000000",
  image: { uri: "unknown" },
  status: { state: "Running", reason: "RUNNING", lastTransitionAt: "2026-01-01T00:00:00Z" },
  metadata: { a: "b" },
  entrypoint: [],
  extensions: { poolRef: "ci-vm" },
  createdAt: "2026-01-01T00:00:00Z",
  allocation: { mode: "pool", poolRef: "ci-vm", state: "allocated" },
};
const read = (part: object) => readSandbox(JSON.stringify({ ...document, ...part }), []);

describe("reading a sandbox", () => {
  it("takes what the server says of it", () => {
    assert.deepEqual(read({}), {
      id: document.id,
      state: "running",
      words: "Running/RUNNING",
      isAllocated: true,
      metadata: { a: "b" },
      createdAt: Date.parse("2026-01-01T00:00:00Z"),
    });
  });

  it("needs no more than an id and a state", () => {
    const bare = JSON.stringify({ id: "x", status: { state: "Pending" } });
    assert.deepEqual(readSandbox(bare, []), {
      id: "x",
      state: "pending",
      words: "Pending",
      isAllocated: false,
      metadata: {},
    });
    assert.equal(read({ allocation: null, metadata: null, createdAt: null }).isAllocated, false);
  });

  for (const [word, state] of [
    ["Pending", "pending"],
    ["RUNNING", "running"],
    ["Allocated", "allocated"],
    ["Stopping", "stopping"],
    ["Failed", "failed"],
    ["Paused", "other"],
    ["Terminated", "other"],
    ["constructor", "other"],
    ["", "other"],
  ] as const)
    it(`takes the state ${JSON.stringify(word)} for ${state}`, () => {
      assert.equal(read({ status: { state: word } }).state, state);
    });

  it("says the server's words in one line that is not long, without what is hidden", () => {
    const status = {
      state: "Failed",
      reason: "FAILED",
      message: `no\n  image\u0007 s3cr3t ${"x".repeat(1_000)}`,
    };
    const { words } = readSandbox(JSON.stringify({ ...document, status }), ["s3cr3t"]);
    assert.match(words, /^Failed\/FAILED: no image \[redacted\] x+…$/);
    assert.ok(words.length <= 301);
  });

  it("reads times of a zone, with microseconds or without, and no others", () => {
    const at = (createdAt: unknown) => read({ createdAt }).createdAt;
    assert.equal(at("2026-01-01T00:00:00.123456Z"), Date.parse("2026-01-01T00:00:00.123Z"));
    assert.equal(at("2026-01-01T01:00:00+01:00"), Date.parse("2026-01-01T00:00:00Z"));
    for (const wrong of ["2026-01-01T00:00:00", "yesterday", "TZ", "", 5, {}])
      assert.equal(at(wrong), undefined);
  });

  it("takes nothing for an id that could lead elsewhere in a path", () => {
    for (const id of ["", ".", "..", "a/b", "a?b", "a%2fb", "a b", "-a", "a".repeat(254), 5, null]) {
      assert.throws(() => read({ id }), /^Error: the answer is not as expected: id /);
      if (typeof id === "string") assert.equal(isName(id), false);
    }
    assert.ok(isName("a") && isName("a".repeat(253)) && isName(document.id));
  });

  it("says where an answer is wrong, and quotes no value of it", () => {
    const secret = "kept-secret";
    for (const [text, where] of [
      [secret, "no JSON"],
      [JSON.stringify([secret]), "not as expected"],
      [JSON.stringify({ ...document, status: secret }), "status"],
      [JSON.stringify({ ...document, metadata: { key: [secret] } }), "metadata.key"],
      ["", "no JSON"],
    ] as const)
      assert.throws(
        () => readSandbox(text, []),
        (error: Error) => error.message.includes(where) && !error.message.includes(secret),
      );
  });
});

describe("reading pages and pools", () => {
  it("takes a page's sandboxes, and whether there is another", () => {
    const page = { items: [document], pagination: { page: 1, hasNextPage: true } };
    const { sandboxes, hasNext } = readPage(JSON.stringify(page), []);
    assert.deepEqual([sandboxes.map(({ id }) => id), hasNext], [[document.id], true]);
  });

  it("takes no page that does not say whether there is another, or that has something else on it", () => {
    for (const page of [
      {},
      { items: [] },
      { items: null, pagination: { hasNextPage: false } },
      { items: [], pagination: { hasNextPage: "false" } },
      { items: [document, {}], pagination: { hasNextPage: false } },
    ])
      assert.throws(() => readPage(JSON.stringify(page), []));
  });

  it("takes a pool's places where they are counted", () => {
    const places = { total: 3, allocated: 1, available: 2 };
    assert.deepEqual(readPool(JSON.stringify({ name: "ci-vm", status: { ...places, revision: "" } })), {
      name: "ci-vm",
      places,
    });
    assert.deepEqual(readPool(JSON.stringify({ name: "ci-vm", capacitySpec: {} })), { name: "ci-vm" });
    assert.deepEqual(readPool(JSON.stringify({ name: "ci-vm", status: null })), { name: "ci-vm" });
    for (const status of [{}, { ...places, total: -1 }, { ...places, total: 1.5 }, "full"])
      assert.throws(() => readPool(JSON.stringify({ name: "ci-vm", status })));
  });
});

describe("whatever an answer is", () => {
  /** What a server answers, with parts of it replaced, lost or of another kind. */
  const any = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      fc.jsonValue(),
      fc.constantFrom("Running", document.id, "2026-01-01T00:00:00Z", null, true, 0, -1),
      fc.record(
        {
          id: tie("value"),
          name: tie("value"),
          status: tie("value"),
          state: tie("value"),
          reason: tie("value"),
          message: tie("value"),
          metadata: tie("value"),
          createdAt: tie("value"),
          allocation: tie("value"),
          items: fc.array(tie("value"), { maxLength: 3 }),
          pagination: tie("value"),
          hasNextPage: tie("value"),
        },
        { requiredKeys: [] },
      ),
    ),
  })).value;
  const text = fc.oneof(
    fc.string(),
    any.map((value) => JSON.stringify(value)),
    any.map((value) => JSON.stringify(Object.assign({ ...document }, value))),
    any.map((value) => JSON.stringify({ items: [document, value], pagination: { hasNextPage: false } })),
  );
  const readers: readonly ((text: string) => Sandbox | Page | Pool)[] = [
    (answer) => readSandbox(answer, []),
    (answer) => readPage(answer, []),
    readPool,
  ];

  it("is read as it should be, or is an error of one line", () => {
    fc.assert(
      fc.property(text, fc.constantFrom(...readers), (answer, reader) => {
        try {
          const value = reader(answer);
          if ("metadata" in value)
            for (const part of Object.values(value.metadata)) assert.equal(typeof part, "string");
        } catch (error) {
          assert.ok(error instanceof Error && error.message.startsWith("the answer is no"), String(error));
        }
      }),
      { numRuns: 200 },
    );
  });
});
