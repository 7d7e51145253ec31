import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { InvalidAssignmentError } from "../../../controller/assignment/errors.ts";
import {
  executorAnnotations,
  executorLabels,
  type ExecutorMetadata,
  executorName,
  parseExecutorMetadata,
} from "../../../controller/assignment/executor-metadata.ts";
import { anAssignment, anAttempt, anExecutorMetadata, testTrustDomain } from "../../support/builders.ts";

const parse = (labels: object, annotations: object) =>
  parseExecutorMetadata(testTrustDomain, { ...labels }, { ...annotations });

/** Names of owners and repositories, those included that Gitea does not allow today. */
const namePart = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_.-]{1,20}$/),
  fc.string({ unit: "binary", minLength: 1, maxLength: 20 }).filter((text) => !text.includes("/")),
);

const someMetadata: fc.Arbitrary<ExecutorMetadata> = fc
  .record({
    owner: fc.oneof(fc.uuid(), fc.stringMatching(/^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$/)),
    taskId: fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
    backend: fc.constantFrom("pod" as const, "vm" as const),
    repository: fc.tuple(namePart, namePart).map((parts) => parts.join("/")),
    jobKey: fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_-]{0,30}$/),
    trust: fc.constantFrom("branch" as const, "fork" as const),
    number: fc.integer({ min: 1, max: 999_999_999 }),
    nonce: fc.stringMatching(/^[0-9a-f]{32}$/),
    terminal: fc.boolean(),
  })
  .map(({ owner, number, nonce, terminal, ...assignment }) => ({
    owner,
    assignment: anAssignment(assignment),
    attempt: { number, nonce },
    terminal,
  }));

const labels = executorLabels(anExecutorMetadata());
const annotations = executorAnnotations(anExecutorMetadata());

describe("executor metadata", () => {
  it("B-06 has these labels and annotations and no others: nothing of the task, no secret", () => {
    assert.deepEqual(executorLabels(anExecutorMetadata()), {
      "ci.ddupan.top/runner": "true",
      "ci.ddupan.top/owner": "8f14e45f-ceea-467f-a0e6-c4e8e1c8a1b2",
      "ci.ddupan.top/assignment-id": "gitea-task-42",
      "ci.ddupan.top/task-id": "42",
      "ci.ddupan.top/backend": "pod",
      "ci.ddupan.top/attempt": "1",
      "ci.ddupan.top/nonce": "00000000000000000000000000000001",
    });
    assert.deepEqual(executorAnnotations(anExecutorMetadata()), {
      "ci.ddupan.top/repository": "acme/widgets",
      "ci.ddupan.top/job-key": "build",
      "ci.ddupan.top/spiffe-id": "spiffe://example.org/ci/acme/widgets/build",
      "ci.ddupan.top/trust": "branch",
    });
  });

  it("B-06 says terminal only when Gitea has accepted the result", () => {
    assert.equal(executorLabels(anExecutorMetadata({ terminal: true }))["ci.ddupan.top/terminal"], "true");
    assert.ok(!("ci.ddupan.top/terminal" in labels));
  });

  it("B-06 has values that Kubernetes takes as labels", () => {
    const value = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;
    fc.assert(
      fc.property(someMetadata, (metadata) =>
        Object.values(executorLabels(metadata)).every((v) => value.test(v)),
      ),
    );
  });

  it("B-06 names an executor for assignment, attempt and nonce, as Kubernetes takes a name", () => {
    assert.equal(
      executorName(anAssignment(), anAttempt({ number: 2, nonce: "0123456789abcdef".repeat(2) })),
      "gitea-task-42-2-01234567",
    );
    fc.assert(
      fc.property(someMetadata, ({ assignment, attempt }) =>
        /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(executorName(assignment, attempt)),
      ),
    );
  });

  it("B-05 gives back what was written", () => {
    fc.assert(
      fc.property(someMetadata, (metadata) => {
        assert.deepEqual(parse(executorLabels(metadata), executorAnnotations(metadata)), metadata);
      }),
    );
  });

  it("B-05 does not mind labels and annotations of others", () => {
    const others = { app: "x", "kubernetes.io/psp": "y", "ci.ddupan.top/other": "z" };
    assert.deepEqual(parse({ ...labels, ...others }, { ...annotations, ...others }), anExecutorMetadata());
  });

  for (const key of Object.keys({ ...labels, ...annotations })) {
    it(`B-05 refuses metadata without ${key}, naming it`, () => {
      const without = (texts: object) => Object.fromEntries(Object.entries(texts).filter(([k]) => k !== key));
      assert.throws(() => parse(without(labels), without(annotations)), {
        name: "InvalidAssignmentError",
        message: `${key} is missing`,
      });
    });
  }

  const wrong: Readonly<Record<string, readonly string[]>> = {
    runner: ["", "false", "True", "true "],
    owner: ["", "-a", "a-", "a b", "a".repeat(64), "ä"],
    "assignment-id": ["", "42", "gitea-task-43", "gitea-task-042", "gitea-task-42 ", "Gitea-task-42"],
    "task-id": [
      "",
      "0",
      "-42",
      "042",
      "4.2",
      "42n",
      "0x2a",
      "1e3",
      " 42",
      "99999999999999999999",
      "9223372036854775808",
    ],
    backend: ["", "Pod", "vm-dev", "local", "pod,vm"],
    attempt: ["", "0", "-1", "01", "1.5", "1e3", "9999999999", "one"],
    nonce: ["", "0".repeat(31), "0".repeat(33), "G".repeat(32), "A".repeat(32), `${"0".repeat(32)}\n`],
    terminal: ["", "false", "True", "1"],
    repository: [
      "",
      "widgets",
      "/widgets",
      "acme/",
      "acme/widgets/x",
      "a/\ud800",
      "acme/gadgets",
      "Acme/widgets",
    ],
    "job-key": ["", "9lives", "a b", "a/b", "a.b", "-x", "build\n", "test", "Build", "a".repeat(256)],
    "spiffe-id": [
      "",
      "x",
      "spiffe://example.org/ci/acme/widgets/test",
      "spiffe://example.org/ci-fork/acme/widgets/build",
      "spiffe://example.com/ci/acme/widgets/build",
      "SPIFFE://example.org/ci/acme/widgets/build",
      "spiffe://example.org/ci/acme/widgets/build/",
    ],
    trust: ["", "Branch", "fork ", "fork", "none"],
  };
  it("B-05 tries a wrong value for every label and annotation", () => {
    const keys = Object.keys({ ...executorLabels(anExecutorMetadata({ terminal: true })), ...annotations });
    assert.deepEqual(
      Object.keys(wrong)
        .map((key) => `ci.ddupan.top/${key}`)
        .toSorted(),
      keys.toSorted(),
    );
  });
  for (const [key, values] of Object.entries(wrong)) {
    it(`B-05 refuses every wrong ${key}, naming it`, () => {
      for (const value of values) {
        const change = { [`ci.ddupan.top/${key}`]: value };
        const isLabel = key === "terminal" || `ci.ddupan.top/${key}` in labels;
        assert.throws(
          () =>
            isLabel
              ? parse({ ...labels, ...change }, annotations)
              : parse(labels, { ...annotations, ...change }),
          (error) => error instanceof InvalidAssignmentError && error.message.includes(key),
          JSON.stringify(value),
        );
      }
    });
  }

  it("B-05 names the repository where it can be part of no SPIFFE ID", () => {
    const long = { ...annotations, "ci.ddupan.top/repository": `acme/${"a".repeat(2048)}` };
    assert.throws(() => parse(labels, long), {
      message: "ci.ddupan.top/repository: the SPIFFE ID of build is longer than 2048 bytes",
    });
  });

  it("B-10 refuses a recovered SPIFFE ID that is not the recomputed one, a fork's included", () => {
    const fork = anExecutorMetadata({ assignment: anAssignment({ trust: "fork" }) });
    assert.deepEqual(parse(executorLabels(fork), executorAnnotations(fork)), fork);
    const posing = { ...executorAnnotations(fork), "ci.ddupan.top/spiffe-id": anAssignment().spiffeId };
    assert.throws(() => parse(labels, posing), InvalidAssignmentError);
    const promoted = { ...executorAnnotations(fork), "ci.ddupan.top/trust": "branch" };
    assert.throws(() => parse(labels, promoted), InvalidAssignmentError);
  });

  it("B-10 refuses metadata of another trust domain", () => {
    assert.throws(() => parseExecutorMetadata("example.com", labels, annotations), /spiffe-id/);
  });

  it("B-05 refuses anything at all with an InvalidAssignmentError and a short message", () => {
    const key = fc.constantFrom(...Object.keys({ ...labels, ...annotations }));
    fc.assert(
      fc.property(key, fc.string({ unit: "binary", maxLength: 300 }), (changed, value) => {
        fc.pre(value !== { ...labels, ...annotations }[changed]);
        const change = { [changed]: value };
        try {
          parse(changed in labels ? { ...labels, ...change } : labels, { ...annotations, ...change });
        } catch (error) {
          assert.ok(error instanceof InvalidAssignmentError);
          assert.ok(error.message.length < 1000);
        }
      }),
    );
  });
});
