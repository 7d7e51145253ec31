import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { Readable } from "node:stream";
import { create, fromBinary, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import * as fc from "fast-check";
import { after, before, describe, it } from "mocha";
import { callHeaders } from "../../controller/assignment/executor-call.ts";
import {
  executorAnnotations,
  executorLabels,
  parseExecutorMetadata,
} from "../../controller/assignment/executor-metadata.ts";
import { InvalidAssignmentError } from "../../controller/assignment/errors.ts";
import { parseExecutorFile, serialiseExecutorFile } from "../../controller/backends/local/executor-file.ts";
import { requestHeaders } from "../../controller/bootstrap/proxy-headers.ts";
import { serverOf, targetOf } from "../../controller/bootstrap/proxy-target.ts";
import { callerOf } from "../../controller/facade/admit.ts";
import { signCapability, verifyCapability } from "../../controller/identity/capability.ts";
import { parseSpiffeId, parseTrustDomain, SpiffeIdError } from "../../controller/identity/spiffe-id.ts";
import { parseStat } from "../../controller/backends/local/process-stat.ts";
import { parseStat as parseListed } from "../../controller/bootstrap/process-list.ts";
import { jobOutline } from "../../controller/bootstrap/runner-file.ts";
import { historyOf } from "../../controller/events/stored-event.ts";
import { checkedState } from "../../controller/facade/check-state.ts";
import { ApiOutage, ApiRefusal } from "../../controller/kubernetes/kubernetes-api.ts";
import { readEvents } from "../../controller/kubernetes/read-answer.ts";
import { refusalOf } from "../../controller/kubernetes/refusal.ts";
import { readTask, runsOnOf } from "../../controller/protocol/read-task.ts";
import { stepRecords } from "../../controller/protocol/steps.ts";
import { open, seal } from "../../controller/queue/envelope.ts";
import { decodeRecord, encodeRecord } from "../../controller/record/record-codec.ts";
import { openPart, sealPart } from "../../controller/record/report-part.ts";
import { constraintsOf } from "../../controller/spiffe/certificate-constraints.ts";
import { DerError, splitCertificates } from "../../controller/spiffe/der.ts";
import { parseEndpoint } from "../../controller/spiffe/endpoint.ts";
import { fetchJwtSvid } from "../../controller/spiffe/jwt-svid.ts";
import { verifyLeaf } from "../../controller/spiffe/leaf.ts";
import { readX509Svid } from "../../controller/spiffe/x509-svid.ts";
import { UpdateTaskRequestSchema } from "../../proto/gen/runner/v1/runner_pb.ts";
import { JWTSVIDResponseSchema, X509SVIDResponseSchema } from "../../proto/gen/spiffe/workload_pb.ts";
import { aTask } from "../support/a-task.ts";
import { anAssignment, anAttempt, anExecutorMetadata, aRecord, aTaskContext } from "../support/builders.ts";
import { callerHeaders, keyRing } from "../support/facade-under-test.ts";
import { aStoredTask } from "../support/jetstream.ts";
import { createTestCa, issueLeaf, svidMessage } from "../support/test-pki.ts";
import { aFile } from "./backends/local/fake-processes.ts";

/** One reader of bytes that somebody else has written. */
type Reader = {
  readonly name: string;
  /** Something that it takes; what it is given is made from it. */
  readonly good: () => Uint8Array;
  readonly read: (bytes: Uint8Array) => unknown;
  /** Which errors it may throw; none unless given. */
  readonly mayThrow?: (error: unknown) => boolean;
};

const { id: assignmentId, taskId, spiffeId } = anAssignment();
const id = parseSpiffeId(spiffeId);
const trustDomain = parseTrustDomain("example.org");
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString("latin1");
const bytesOf = (...parts: readonly string[]) => Buffer.from(parts.join("\n"), "latin1");

/** Good bytes with pieces changed, cut out, doubled and put in; and bytes of any kind. */
function hostile(good: Uint8Array): fc.Arbitrary<Uint8Array> {
  const place = fc.nat(Math.max(0, good.length - 1));
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 8 }),
    fc
      .constantFrom("\0", "\n", "\r\n", '"', "{", "[", "%2f", "..", "é", "__proto__", "9".repeat(30))
      .map((of) => Buffer.from(of)),
  );
  const change = fc.tuple(place, fc.nat(12), piece);
  const changed = fc
    .array(change, { minLength: 1, maxLength: 4 })
    .map((changes) =>
      changes.reduce<Uint8Array>(
        (bytes, [at, cut, put]) => Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + cut)]),
        good,
      ),
    );
  const cut = place.map((length) => good.subarray(0, length));
  const doubled = fc
    .tuple(place, place)
    .map(([from, to]) => Buffer.concat([good.subarray(0, to), good.subarray(from)]));
  return fc.oneof({ weight: 4, arbitrary: changed }, cut, doubled, fc.uint8Array({ maxLength: 300 }));
}

describe("bytes that somebody else has written", () => {
  let leaf: Uint8Array;
  let bundle: Uint8Array;
  let message: Uint8Array;
  before(async () => {
    const ca = await createTestCa();
    const issued = await issueLeaf(ca, id);
    leaf = issued.certificate.raw;
    bundle = Buffer.concat([ca.der, (await createTestCa()).der]);
    const response = create(X509SVIDResponseSchema, { svids: [svidMessage(id, issued, ca)] });
    message = toBinary(X509SVIDResponseSchema, response);
  });

  const isDer = (error: unknown) => error instanceof DerError;
  const isError = (error: unknown) => error instanceof Error && error.name === "Error";
  const capability = signCapability(keyRing, { assignmentId, spiffeId, attempt: anAttempt() });
  const metadata = anExecutorMetadata();
  const task = aStoredTask({}, "zq7Pw3");
  const report = { result: "success", key: "zq7Pw3", parts: 1, bytes: 6 } as const;
  const part = { assignmentId, report, part: 0 };
  const jwt = (claims: object) => `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.c2ln`;

  const readers: readonly Reader[] = [
    {
      name: "SPIFFE ID",
      good: () => bytesOf(id),
      read: (bytes) => parseSpiffeId(text(bytes)),
      mayThrow: (error) => error instanceof SpiffeIdError,
    },
    { name: "DER of several certificates", good: () => bundle, read: splitCertificates, mayThrow: isDer },
    { name: "certificate's constraints", good: () => leaf, read: constraintsOf, mayThrow: isDer },
    {
      name: "certificate of a peer",
      good: () => leaf,
      // What OpenSSL cannot read never gets to us.
      read: (bytes) => {
        let certificate: X509Certificate;
        try {
          certificate = new X509Certificate(bytes);
        } catch {
          return undefined;
        }
        return verifyLeaf(certificate, trustDomain, Date.now());
      },
    },
    {
      name: "endpoint of a Workload API",
      good: () => bytesOf("unix:///run/spire/api.sock"),
      read: (bytes) => parseEndpoint(text(bytes)),
      mayThrow: isError,
    },
    {
      name: "endpoint by address",
      good: () => bytesOf("tcp://[2001:db8::1]:8443"),
      read: (bytes) => parseEndpoint(text(bytes)),
      mayThrow: isError,
    },
    {
      name: "message of the Workload API",
      good: () => message,
      read: (bytes) => {
        let decoded;
        try {
          decoded = fromBinary(X509SVIDResponseSchema, bytes);
        } catch {
          return undefined;
        }
        return readX509Svid(decoded, id, Date.now());
      },
    },
    {
      name: "bundle in a message of the Workload API",
      good: () => bundle,
      read: (bytes) => {
        const decoded = fromBinary(X509SVIDResponseSchema, message);
        for (const svid of decoded.svids) svid.bundle = Uint8Array.from(bytes);
        return readX509Svid(decoded, id, Date.now());
      },
    },
    {
      name: "message in the queue",
      good: () => seal(keyRing, task, (size) => Buffer.alloc(size, 7)),
      read: (bytes) => open(keyRing, bytes),
    },
    { name: "record", good: () => encodeRecord(aRecord(), { id: "w", counter: 1 }), read: decodeRecord },
    {
      name: "part of a stored result",
      good: () => sealPart(keyRing, part, Buffer.from("zq7Pw3"), (size) => Buffer.alloc(size, 7)),
      read: (bytes) => openPart(keyRing, part, bytes),
    },
    {
      name: "event in a history",
      good: () => Buffer.from(JSON.stringify({ v: 1, at: 1, event: "x", assignment: assignmentId })),
      read: (bytes) => historyOf(assignmentId, [{ data: bytes, id: "" }]),
    },
    {
      name: "refusal of an API server",
      good: () => Buffer.from(JSON.stringify({ reason: "Conflict", message: "no", details: {} })),
      read: (bytes) => {
        const refusal = refusalOf("GET /x", 409, { "retry-after": "1" }, text(bytes));
        assert.ok(refusal instanceof ApiRefusal || refusal instanceof ApiOutage);
      },
    },
    {
      name: "executor's file",
      good: () => Buffer.from(serialiseExecutorFile(aFile())),
      read: (bytes) => parseExecutorFile(Buffer.from(bytes).toString()),
      mayThrow: isError,
    },
    {
      name: "executor's metadata",
      good: () => Buffer.from(JSON.stringify([executorLabels(metadata), executorAnnotations(metadata)])),
      read: (bytes) => {
        let parsed: unknown;
        try {
          parsed = JSON.parse(text(bytes));
        } catch {
          return undefined;
        }
        // Kubernetes gives maps of texts, whatever their keys.
        const maps = Array.isArray(parsed) ? parsed : [];
        const [labels, annotations] = [0, 1].map((index) =>
          Object.fromEntries(
            Object.entries((maps[index] ?? {}) as object).filter(([, value]) => typeof value === "string"),
          ),
        );
        return parseExecutorMetadata("example.org", labels ?? {}, annotations ?? {});
      },
      mayThrow: (error) => error instanceof InvalidAssignmentError,
    },
    {
      name: "capability",
      good: () => bytesOf(capability),
      read: (bytes) => verifyCapability(keyRing, text(bytes), { assignmentId, spiffeId }),
    },
    {
      name: "header of an executor's call",
      good: () => bytesOf(...Object.values(callerHeaders())),
      read: (bytes) => {
        const headers = new Headers();
        const values = text(bytes).split("\n");
        for (const [index, name] of Object.keys(callerHeaders()).entries()) {
          // What HTTP does not carry.
          const value = (values[index] ?? "").replaceAll(/[\0\r\n]/g, "");
          headers.set(name, value);
        }
        assert.ok(headers.has(callHeaders.capability));
        return callerOf(keyRing, { ok: true, id: spiffeId }, headers);
      },
      mayThrow: (error) => error instanceof ConnectError,
    },
    {
      name: "report of an executor",
      good: () => {
        const steps = [{ id: 0n, logIndex: 1n, logLength: 2n, startedAt: { seconds: 1n } }];
        const request = { state: { id: taskId, steps }, outputs: { key: "value" } };
        return toBinary(UpdateTaskRequestSchema, create(UpdateTaskRequestSchema, request));
      },
      read: (bytes) => {
        let request;
        try {
          request = fromBinary(UpdateTaskRequestSchema, bytes);
        } catch {
          return undefined;
        }
        const record = { ...aRecord(), steps: stepRecords(checkedState(request, taskId).steps) };
        // What is stored has to be read again by the next controller.
        const stored = decodeRecord(encodeRecord(record, { id: "w", counter: 1 }));
        assert.deepEqual(stored.ok && stored.record.steps, record.steps);
        return record;
      },
      mayThrow: (error) => error instanceof ConnectError,
    },
    {
      name: "context of a task",
      good: () => Buffer.from(JSON.stringify(aTaskContext())),
      read: (bytes) => {
        let context: unknown;
        try {
          context = JSON.parse(text(bytes));
        } catch {
          return undefined;
        }
        const given =
          typeof context === "object" && context !== null && !Array.isArray(context) ? context : {};
        const policy = { trustDomain, allowForksOnPods: false };
        const reading = readTask(policy, aTask({ context: given as JsonObject }));
        if (reading.ok) parseSpiffeId(reading.assignment.spiffeId);
        return reading;
      },
    },
    {
      name: "workflow in an executor",
      good: () =>
        bytesOf("on: push", "jobs:", "  build:", "    runs-on: [self-hosted, &a pod]", "    steps: [*a]"),
      read: jobOutline,
    },
    {
      name: "stat of a process, whose name is the job's to choose",
      good: () => bytesOf(`7 (a) b) S 1 7 7 ${"0 ".repeat(15)}4242 0`),
      read: (bytes) => [parseListed(7, text(bytes)), parseStat(text(bytes))],
      mayThrow: isError,
    },
    {
      name: "workflow",
      good: () => bytesOf("on: push", "jobs:", "  build:", "    runs-on: [self-hosted, &a pod]", "    x: *a"),
      read: runsOnOf,
    },
    {
      name: "path of a job's request",
      good: () => bytesOf("/acme/widgets.git/info/../refs?service=git-upload-pack#x"),
      read: (bytes) => targetOf(new URL("https://gitea.example.org/below/"), text(bytes)),
    },
    {
      name: "address of a task's Gitea",
      good: () => bytesOf("https://gitea.example.org:3000/below/"),
      read: (bytes) => serverOf({ server_url: text(bytes) }),
    },
    {
      name: "header of a job's request",
      good: () => bytesOf("close, x-one", "chunked", "value"),
      read: (bytes) => {
        const request = new IncomingMessage(new Socket());
        const [connection = "", encoding = "", value = ""] = text(bytes).split("\n");
        request.headers = { connection, "transfer-encoding": encoding };
        request.headersDistinct = { connection: [connection], "content-length": ["1"], "x-one": [value] };
        const headers = requestHeaders(request, "gitea");
        assert.equal(headers["content-length"], "1");
        assert.equal(headers["host"], "gitea");
        return headers;
      },
    },
  ];

  // Mocha keeps whole stacks: writing down one that has overflown would take longer than any reader.
  const { stackTraceLimit } = Error;
  before(() => void (Error.stackTraceLimit = 10));
  after(() => void (Error.stackTraceLimit = stackTraceLimit));

  for (const { name, good, read, mayThrow = () => false } of readers) {
    const quietly = (bytes: Uint8Array) => {
      try {
        read(bytes);
      } catch (error) {
        if (!mayThrow(error)) throw error;
      }
    };

    it(`as ${name} are taken when they are good, and otherwise lead to no error but the one that is expected`, () => {
      read(good());
      fc.assert(fc.property(hostile(good()), quietly), { numRuns: 300 });
    });

    it(`as ${name} take no longer than their size explains`, () => {
      const once = good();
      const size = 64 * 1024;
      const large = [
        Buffer.concat(Array.from({ length: Math.ceil(size / once.length) }, () => once)),
        Buffer.concat([once, Buffer.alloc(size, "a")]),
        ...["/", ".", "%2f", "[", "{", "-", " ", ",", "\\", "\0", "0\x80", "&a ", "é"].map((one) =>
          Buffer.alloc(size, one),
        ),
      ];
      for (const bytes of large) {
        const started = process.cpuUsage();
        quietly(bytes);
        const { user, system } = process.cpuUsage(started);
        assert.ok(
          user + system < 2_000_000,
          `${(user + system) / 1000} ms for ${text(bytes.subarray(0, 10))}…`,
        );
      }
    });
  }

  it("as JWT-SVID lead to an error that says so, and to no other", async () => {
    const claims = { sub: id, aud: ["registry"], exp: 1 };
    const fetch = (token: string) =>
      fetchJwtSvid(
        {
          client: {
            endpoint: "unix:///x",
            fetchJwtSvids: async () =>
              create(JWTSVIDResponseSchema, { svids: [{ spiffeId: id, svid: token }] }),
          },
          audience: "registry",
          expectedId: id,
          timeoutMs: 1,
        },
        new AbortController().signal,
      );
    assert.equal((await fetch(jwt(claims))).expiresAt, 1_000);
    const property = fc.asyncProperty(hostile(bytesOf(jwt(claims))), async (bytes) => {
      try {
        await fetch(text(bytes));
      } catch (error) {
        assert.ok(isError(error));
      }
    });
    await fc.assert(property, { numRuns: 300 });
  });

  it("as events of a watch lead to an error that says so, and to no other", async () => {
    const good = bytesOf('{"type":"ADDED","object":{}}', '{"type":"ERROR","object":{"code":410}}', "");
    const read = (bytes: Uint8Array) =>
      Array.fromAsync(readEvents(Readable.from([Buffer.from(bytes)]), "WATCH", 1_000));
    const known = (error: unknown) =>
      isError(error) || error instanceof ApiRefusal || error instanceof ApiOutage;
    await assert.rejects(read(good), ApiRefusal);
    const property = fc.asyncProperty(hostile(good), (bytes) =>
      read(bytes).then(
        () => undefined,
        (error: unknown) => assert.ok(known(error), String(error)),
      ),
    );
    await fc.assert(property, { numRuns: 300 });
  });
});
