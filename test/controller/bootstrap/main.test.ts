import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { after, afterEach, before, describe, it } from "mocha";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { createTlsServer } from "../../../controller/spiffe/tls-server.ts";
import { Result } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeFacade, type FakeFacade } from "../../fakes/fake-facade.ts";
import { createFakeWorkloadApi } from "../../fakes/fake-workload-api.ts";
import { aTask } from "../../support/a-task.ts";
import { createTestCa, issueLeaf, svidMessage, type TestCa } from "../../support/test-pki.ts";

const ownId = "spiffe://example.org/ci/acme/widgets/build";
const facadeId = "spiffe://example.org/facade";
/** Not the same in two runs of these tests at once: one bootstrap runs on a machine for a capability. */
const capability = `1.open-sesame-${randomUUID()}`;

describe("the bootstrap as a program", () => {
  let folder = "";
  let ca: TestCa;
  let children: ChildProcess[] = [];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "main-"));
    ca = await createTestCa();
  });
  afterEach(() => {
    for (const child of children) child.kill("SIGKILL");
    children = [];
  });
  after(() => rm(folder, { recursive: true, force: true }));

  /** Starts it with an environment and nothing else; tells its lines on stderr and its end. */
  const start = (environment: NodeJS.ProcessEnv) => {
    const main = join(import.meta.dirname, "../../../controller/bootstrap/main.ts");
    const { PATH, NODE_COMPILE_CACHE } = process.env;
    const child = spawn(process.execPath, [main], {
      cwd: folder,
      env: { PATH, NODE_COMPILE_CACHE, ...environment },
      stdio: ["ignore", "inherit", "pipe"],
    });
    children.push(child);
    const lines: string[] = [];
    const heard = (pattern: RegExp) =>
      new Promise<void>((resolve) => {
        const look = () => {
          if (lines.some((line) => pattern.test(line))) resolve();
        };
        reader.on("line", look);
        look();
      });
    const reader = createInterface({ input: child.stderr });
    reader.on("line", (line) => lines.push(line));
    const ended = once(child, "close").then(([code]: unknown[]) => code);
    return { child, lines, heard, ended };
  };

  /** A facade behind mTLS, as whoever `id` is. */
  const serve = async (facade: FakeFacade, id: string) => {
    const leaf = await issueLeaf(ca, id);
    const now = Date.now();
    const svid = {
      id: parseSpiffeId(id),
      certificatePem: leaf.chainPem,
      keyPem: leaf.keyPem,
      bundlePem: [ca.pem],
      notBefore: now - 1_000,
      notAfter: now + 600_000,
    };
    const server = createTlsServer({
      source: { current: () => svid, onUpdate: () => () => undefined },
      clock: systemClock,
      onRefused: () => undefined,
      limits: { closeGraceMs: 0 },
    });
    server.server.on(
      "request",
      connectNodeAdapter({ routes: facade.routes, requestPathPrefix: "/api/actions" }),
    );
    const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
    return { url: `https://localhost:${port}`, [Symbol.asyncDispose]: () => server.stop() };
  };

  const environmentOf = async (url: string, socket: string): Promise<NodeJS.ProcessEnv> => {
    const binary = join(folder, "gitea-runner");
    const fake = join(import.meta.dirname, "../../fakes/fake-gitea-runner.ts");
    await writeFile(binary, `#!/bin/sh\nexec '${process.execPath}' '${fake}' "$@"\n`, { mode: 0o755 });
    await writeFile(join(folder, "config.yaml"), "runner: {}\n");
    return {
      CI_ASSIGNMENT_ID: "gitea-task-42",
      CI_BACKEND: "pod",
      CI_RUNNER_CAPABILITY: capability,
      CI_SPIFFE_ID: ownId,
      RUNNER_FACADE_URL: url,
      RUNNER_FACADE_SPIFFE_ID: facadeId,
      SPIFFE_ENDPOINT_SOCKET: `unix://${socket}`,
      GITEA_RUNNER_BINARY: binary,
      GITEA_RUNNER_CONFIG_FILE: join(folder, "config.yaml"),
      FAKE_RUNNER_PART: "succeeds",
      FAKE_RUNNER_TRACE: join(folder, "trace"),
      FAKE_RUNNER_FILE: join(folder, ".runner"),
    };
  };

  it("B-74 refuses to start with an incomplete environment, in one line", async () => {
    const { lines, ended } = start({ CI_BACKEND: "pod", CI_RUNNER_CAPABILITY: capability });
    assert.equal(await ended, 1);
    assert.equal(lines.length, 1);
    const line = JSON.parse(lines[0] ?? "") as Record<string, string>;
    assert.equal(line["component"], "bootstrap");
    assert.match(line["error"] ?? "", /^CI_ASSIGNMENT_ID is missing, CI_SPIFFE_ID is missing, /);
    assert.doesNotMatch(lines.join(""), /sesame/);
  });

  it("refuses to start without gitea-runner's configuration", async () => {
    const environment = await environmentOf("https://localhost:1", "/nowhere");
    const { lines, ended } = start({ ...environment, GITEA_RUNNER_CONFIG_FILE: "/no/config.yaml" });
    assert.equal(await ended, 1);
    assert.match(lines.join(""), /GITEA_RUNNER_CONFIG_FILE \(\/no\/config.yaml\)/);
  });

  it("B-73 takes its own SVID to the facade, runs the job, and ends with 0", async () => {
    const facade = createFakeFacade({ task: aTask() });
    await using server = await serve(facade, facadeId);
    const socket = join(folder, "a.sock");
    await using api = createFakeWorkloadApi(socket);
    await api.start();
    const { lines, ended } = start(await environmentOf(server.url, socket));
    const other = "spiffe://example.org/other";
    const early = await api.nextStream();
    early.send({ svids: [svidMessage(other, await issueLeaf(ca, other), ca)] });
    const stream = await api.nextStream();
    stream.send({ svids: [svidMessage(ownId, await issueLeaf(ca, ownId), ca)] });
    assert.equal(await ended, 0, lines.join("\n"));
    assert.equal(facade.result, Result.SUCCESS);
    const instances = new Set(facade.headers.map((headers) => headers.get("ci-bootstrap-instance")));
    assert.equal(instances.size, 1);
    for (const headers of facade.headers) assert.equal(headers.get("ci-runner-capability"), capability);
    const trace = await readFile(join(folder, "trace"), "utf8");
    assert.match(trace, /"SPIFFE_ENDPOINT_SOCKET"/);
    assert.doesNotMatch(trace + lines.join(""), /sesame/);
  });

  it("B-73 tells nothing to a facade with another SPIFFE ID, and ends with 1 when it is stopped", async () => {
    const facade = createFakeFacade({ task: aTask() });
    await using server = await serve(facade, "spiffe://example.org/other");
    const socket = join(folder, "b.sock");
    await using api = createFakeWorkloadApi(socket);
    await api.start();
    const { child, heard, lines, ended } = start(await environmentOf(server.url, socket));
    const stream = await api.nextStream();
    stream.send({ svids: [svidMessage(ownId, await issueLeaf(ca, ownId), ca)] });
    await heard(/the peer is spiffe:\/\/example.org\/other, expected is spiffe:\/\/example.org\/facade/);
    child.kill("SIGTERM");
    assert.equal(await ended, 1);
    assert.match(lines.at(-1) ?? "", /stopped by SIGTERM/);
    assert.deepEqual(facade.calls, []);
  });
});
