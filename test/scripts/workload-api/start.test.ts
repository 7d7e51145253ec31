import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, statSync } from "node:fs";
import { access, chmod, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import {
  entryFile,
  serialiseEntry,
  socketPath,
  socketsFolder,
  type WorkloadEntry,
} from "../../../controller/backends/local/workload-entry.ts";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { createLogger } from "../../../controller/platform/logger.ts";
import { createWorkloadClient } from "../../../controller/spiffe/workload-client.ts";
import { openX509Source } from "../../../controller/spiffe/x509-source.ts";
import { type RunningWorkloadApi, startWorkloadApi } from "../../../scripts/workload-api/start.ts";

const spiffeId = parseSpiffeId("spiffe://example.org/ci/owner/repo/build");
const never = new AbortController().signal;
const log = createLogger("error", { write: () => {} });
const otherUid = 60_600;

describe("process of the development Workload API", () => {
  let folder: string;
  let resources: AsyncDisposableStack;
  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    folder = await mkdtemp(path.join(tmpdir(), "workload-api-"));
    // Other users have to pass through.
    await chmod(folder, 0o711);
    resources.defer(() => rm(folder, { recursive: true }));
  });
  afterEach(() => resources.disposeAsync());

  const start = async (svidTtlSeconds = 3600, clockAheadSeconds = 0): Promise<RunningWorkloadApi> => {
    const how = { folder, trustDomain: "example.org", svidTtlSeconds, clockAheadSeconds, signal: never };
    return resources.use(await startWorkloadApi(how));
  };

  async function register(name: string, entry: WorkloadEntry): Promise<string> {
    const file = entryFile(folder, name);
    const draft = path.join(path.dirname(file), `.${name}.new`);
    await writeFile(draft, serialiseEntry(entry));
    await rename(draft, file);
    return socketPath(folder, name);
  }

  it("serves over its socket, rotates, and ends with 0 and without sockets on SIGTERM", async () => {
    const api = await start(6);
    const socket = await register("job", { spiffeId, uid: null });
    using client = createWorkloadClient({ kind: "unix", path: socket });
    await using source = await openX509Source(
      { client, expectedId: spiffeId, clock: systemClock, random: Math.random, log, readyTimeoutMs: 50_000 },
      never,
    );
    const first = source.current();
    await new Promise((resolve) => source.onUpdate(resolve));
    assert.notEqual(source.current().keyPem, first.keyPem);
    await api.stop();
    assert.equal(await api.exited, "exit code 0");
    assert.deepEqual(await readdir(socketsFolder(folder)), []);
  });

  it("gives SVIDs that begin in the future if its clock is to be ahead, and that are good from then on", async () => {
    await start(3600, 16);
    const socket = await register("job", { spiffeId, uid: null });
    using client = createWorkloadClient({ kind: "unix", path: socket });
    const told: string[] = [];
    const lines = createLogger("warn", { write: (line) => told.push(line) });
    const asked = Date.now();
    await using source = await openX509Source(
      {
        client,
        expectedId: spiffeId,
        clock: systemClock,
        random: Math.random,
        log: lines,
        readyTimeoutMs: 50_000,
      },
      never,
    );
    assert.match(told.join(""), /valid only from/);
    // Sixteen seconds ahead, and begun ten seconds before; certificates know whole seconds.
    const { notBefore } = source.current();
    assert.ok(notBefore > asked && notBefore <= Date.now(), String(notBefore - asked));
  });

  it("does not start in production, and says why", async () => {
    const environment = { ...process.env, NODE_ENV: "production" };
    const main = new URL("../../../scripts/workload-api/main.ts", import.meta.url).pathname;
    const child = spawn(process.execPath, [main, "--folder", folder, "--trust-domain", "example.org"], {
      env: environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let errors = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
    const [code] = await once(child, "close");
    assert.equal(code, 1);
    assert.match(errors, /for the quick start and tests/);
    assert.deepEqual(await readdir(folder), []);
  });

  it("tells whoever starts it why it did not come up", async () => {
    await writeFile(
      path.join(folder, "authority.json"),
      '{"trustDomain":"other.org","caCertificate":"","caKey":"","jwtKey":""}',
    );
    await assert.rejects(start(), /exit code 1[\s\S]*is of the trust domain other\.org/);
  });

  it("lets only the uid of the entry, and root, connect", async function () {
    const reason = cannotSwitchUser();
    if (reason !== undefined) {
      assert.notEqual(process.env["CI"], "true", `this test must run in CI, but ${reason}`);
      console.log(`        skipped: ${reason}`);
      this.skip();
    }
    await start();
    const socket = await register("job", { spiffeId, uid: otherUid });
    assert.equal(await connectAs(0, socket), "connected");
    assert.equal(await connectAs(otherUid, socket), "connected");
    assert.equal(await connectAs(otherUid + 1, socket), "EACCES");
    const { uid } = statSync(socket);
    assert.equal(uid, otherUid);
  });

  /** How a process of this uid fares with the socket; waits for the socket to appear if that is what it is missing. */
  async function connectAs(uid: number, socket: string): Promise<string> {
    const script = `
      const socket = require("node:net").connect(process.argv[1]);
      socket.on("connect", () => { console.log("connected"); socket.destroy(); });
      socket.on("error", (error) => console.log(error.code));
    `;
    for (;;) {
      const child = spawn(process.execPath, ["-e", script, socket], {
        uid,
        gid: uid,
        cwd: "/",
        stdio: ["ignore", "pipe", "inherit"],
      });
      let output = "";
      child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
      await once(child, "close");
      if (output.trim() !== "ENOENT") return output.trim();
    }
  }

  it("keeps its keys from everybody else", async () => {
    await start();
    const text = await readFile(path.join(folder, "authority.json"), "utf8");
    assert.match(text, /PRIVATE KEY/);
    assert.equal(statSync(path.join(folder, "authority.json")).mode & 0o777, 0o600);
    await access(path.join(folder, "bundle.pem"), constants.R_OK);
  });
});

/** Why no process of another user can be started here; undefined if it can. */
function cannotSwitchUser(): string | undefined {
  if (process.getuid?.() !== 0) return "only root can start processes of other users";
  for (let at = process.execPath; at !== "/"; at = path.dirname(at)) {
    accessSync(at);
    if ((statSync(at).mode & 0o001) === 0) return `${at} is closed to other users`;
  }
  return undefined;
}
