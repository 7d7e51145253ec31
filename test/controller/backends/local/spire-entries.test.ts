import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import { BackendError } from "../../../../controller/backends/backend.ts";
import { createSpireEntries } from "../../../../controller/backends/local/spire-entries.ts";

const { signal } = new AbortController();
const entry = {
  id: "ci.owner.pod.x",
  spiffeId: "spiffe://example.org/ci/owner/repo/build",
  parentId: "spiffe://example.org/host",
  selectors: ["unix:uid:60600", "unix:gid:60600"],
  x509TtlSeconds: 600,
};
const failed = (kind: "retryable" | "terminal", message: RegExp) => (error: unknown) =>
  error instanceof BackendError && error.kind === kind && message.test(error.message);

/** What the real server answers to what is asked here is the subject of test/e2e/spire.test.ts. */
describe("entries of a SPIRE server", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "spire-entries-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  /** A server that says this to whatever it is asked. */
  async function saying(answer: unknown, ...more: readonly string[]) {
    const serverBinary = path.join(folder, "spire-server");
    const text = typeof answer === "string" ? answer : JSON.stringify(answer);
    const list = JSON.stringify({ entries: [theirs], next_page_token: "" });
    const lines = [
      "#!/bin/sh",
      `printf '%s\\n' "$@" > ${folder}/asked`,
      `if [ "$2" = show ] && [ -e ${folder}/has-entries ]; then echo '${list}'; exit; fi`,
      `echo '${text}'`,
      ...more,
    ];
    await writeFile(serverBinary, `${lines.join("\n")}\n`);
    await chmod(serverBinary, 0o755);
    return createSpireEntries({ serverBinary, serverSocket: "/run/server.sock" });
  }
  const asked = async () => (await readFile(path.join(folder, "asked"), "utf8")).trim().split("\n").join(" ");
  const result = (code: number, message = "") => ({
    // Whatever exists, the program shows the entry that it was asked to create.
    results: [{ status: { code, message }, entry: { ...theirs, id: entry.id } }],
  });
  const theirs = {
    id: "theirs",
    spiffe_id: { trust_domain: "example.org", path: "/ci/owner/repo/build" },
    parent_id: { trust_domain: "example.org", path: "/host" },
    selectors: [{ type: "unix", value: "uid:60600" }],
    x509_svid_ttl: 600,
  };

  it("are created with all that they are made of", async () => {
    const entries = await saying(result(0));
    assert.deepEqual(await entries.create(entry, signal), { kind: "created" });
    assert.equal(
      await asked(),
      "entry create -entryID ci.owner.pod.x -spiffeID spiffe://example.org/ci/owner/repo/build " +
        "-parentID spiffe://example.org/host -selector unix:uid:60600 -selector unix:gid:60600 " +
        "-x509SVIDTTL 600 -socketPath /run/server.sock -output json",
    );
  });

  it("exist already under another id, which only the list tells", async () => {
    const entries = await saying(result(6, "similar entry already exists"));
    await writeFile(path.join(folder, "has-entries"), "");
    const similar = { ...entry, selectors: ["unix:uid:60600"] };
    assert.deepEqual(await entries.create(similar, signal), { kind: "exists", id: "theirs" });
    // It was there, and is gone again.
    await assert.rejects(entries.create(entry, signal), failed("retryable", /code 6: similar entry/));
  });

  it("cannot have the id of another one", async () => {
    const entries = await saying(result(6, "UNIQUE constraint failed: registered_entries.entry_id"));
    await writeFile(path.join(folder, "has-entries"), "");
    const outcome = await entries.create({ ...entry, id: "theirs" }, signal);
    assert.ok(outcome.kind === "id-taken");
    assert.deepEqual(outcome.by.selectors, ["unix:uid:60600"]);
  });

  it("are refused in the answer, though the exit code is 0", async () => {
    const wrong = await saying(result(3, "trust domain is wrong"));
    await assert.rejects(
      wrong.create(entry, signal),
      failed("terminal", /registering .*build: SPIRE refuses with code 3: trust domain is wrong/),
    );
    const busy = await saying(result(14, "later"));
    await assert.rejects(busy.create(entry, signal), failed("retryable", /code 14: later/));
  });

  it("are deleted by id; one that is gone is no error, one that the server keeps is", async () => {
    const gone = await saying(result(5, "not found"));
    await gone.remove("x", signal);
    assert.match(await asked(), /^entry delete -entryID x /);
    const kept = await saying(result(13, "disk full"));
    await assert.rejects(kept.remove("x", signal), failed("retryable", /deleting the entry x.*disk full/));
  });

  it("are listed below a parent", async () => {
    const entries = await saying({ entries: [theirs], next_page_token: "" });
    const { x509TtlSeconds: _, ...expected } = { ...entry, id: "theirs", selectors: ["unix:uid:60600"] };
    assert.deepEqual(await entries.below(entry.parentId, signal), [expected]);
    assert.match(await asked(), /^entry show -parentID spiffe:\/\/example\.org\/host /);
  });

  it("cannot be asked of a server that is away: its own words, and another try may help", async () => {
    const entries = await saying("", "echo Error: connection refused >&2; exit 1");
    const away = failed("retryable", /^spire-server entry show: Error: connection refused$/);
    await assert.rejects(entries.below(entry.parentId, signal), away);
  });

  it("cannot be asked without the program", async () => {
    const entries = createSpireEntries({ serverBinary: "/nowhere/spire-server", serverSocket: "/s" });
    await assert.rejects(entries.below(entry.parentId, signal), failed("retryable", /ENOENT/));
  });

  it("are not waited for any longer than the caller wants", async () => {
    const entries = await saying("", "exec sleep 60");
    const given = new AbortController();
    const asking = entries.below(entry.parentId, given.signal);
    given.abort(new Error("given up"));
    await assert.rejects(asking, /^Error: given up$/);
  });

  it("have to come in JSON", async () => {
    const entries = await saying("Found 0 entries");
    await assert.rejects(
      entries.below(entry.parentId, signal),
      failed("retryable", /did not answer in JSON/),
    );
  });

  it("have to come in the form that is known", async () => {
    for (const answer of [{}, { entries: [{ id: 1 }] }, [], "null"]) {
      const entries = await saying(answer);
      const unknown = failed("retryable", /^spire-server entry (show|delete) answered in another form/);
      await assert.rejects(entries.below(entry.parentId, signal), unknown);
      await assert.rejects(entries.remove("x", signal), unknown);
    }
  });
});
