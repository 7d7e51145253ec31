import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { BackendError } from "../../../../controller/backends/backend.ts";
import { openRegistration } from "../../../../controller/backends/local/local-identity.ts";
import type { Registration } from "../../../../controller/backends/local/registration.ts";
import {
  createSpireRegistration,
  uidRestMs,
} from "../../../../controller/backends/local/spire-registration.ts";
import { createFakeClock, type FakeClock, settle } from "../../../fakes/fake-clock.ts";
import { createFakeSpireEntries, type FakeSpireEntries } from "../../../fakes/fake-spire-entries.ts";

const { signal } = new AbortController();
const parentId = "spiffe://example.org/host";
const spiffeId = "spiffe://example.org/ci/owner/repo/build";
const name = "gitea-task-7-1-0123abcd";
const workload = { name, spiffeId, uid: 60_600 };

describe("registration with SPIRE", () => {
  let entries: FakeSpireEntries;
  let clock: FakeClock;
  let registration: Registration;
  const options = (owner = "owner-1", kind: "pod" | "vm" = "pod") => ({
    kind,
    owner,
    parentId,
    agentSocket: "/run/spire/agent.sock",
    svidTtlSeconds: 600,
    entries,
    clock,
  });
  const another = (owner?: string, kind?: "pod" | "vm") => createSpireRegistration(options(owner, kind));
  beforeEach(() => {
    entries = createFakeSpireEntries();
    clock = createFakeClock();
    registration = another();
  });
  const ids = () => entries.entries.map(({ id }) => id);

  it("gives the uid of the executor, and nothing else, the identity of the job", async () => {
    await registration.add(workload, signal);
    assert.deepEqual(entries.entries, [
      {
        id: `ci.owner-1.pod.${name}`,
        spiffeId,
        parentId,
        selectors: ["unix:uid:60600"],
        x509TtlSeconds: 600,
      },
    ]);
    assert.equal(registration.socket(name), "/run/spire/agent.sock");
    assert.equal(registration.folder, "/run/spire");
  });

  it("may be repeated", async () => {
    await registration.add(workload, signal);
    await registration.add(workload, signal);
    assert.equal(entries.entries.length, 1);
    await registration.remove(workload, signal);
    await registration.remove(workload, signal);
    assert.deepEqual(ids(), []);
  });

  it("does not take an entry for its own that somebody else will remove", async () => {
    const selectors = ["unix:uid:60600"];
    entries.put({ id: "by-hand", spiffeId, parentId, selectors });
    await assert.rejects(registration.add(workload, signal), (error) => {
      assert.ok(error instanceof BackendError && error.kind === "retryable");
      assert.match(error.message, /by the entry by-hand already/);
      return true;
    });
  });

  it("replaces an entry of its own that names something else, and lets the uid in it rest", async () => {
    await registration.add({ ...workload, uid: 60_666 }, signal);
    await registration.add(workload, signal);
    assert.deepEqual(
      entries.entries.map(({ selectors }) => selectors),
      [["unix:uid:60600"]],
    );
    assert.deepEqual(await registration.reservedUids(signal), new Set([60_600, 60_666]));
  });

  it("refuses an executor without a uid of its own", async () => {
    await assert.rejects(registration.add({ ...workload, uid: null }, signal), /no uid of its own/);
    const identity = {
      kind: "spire",
      serverBinary: "/bin/false",
      serverSocket: "/run/server.sock",
      parentId,
      agentSocket: "/run/agent.sock",
      svidTtlSeconds: 600,
    } as const;
    const of = { kind: "pod", owner: "owner-1", ownUids: false, clock } as const;
    assert.throws(() => openRegistration(identity, of), /only root can give.*LOCAL_IDENTITY=workload-api/);
  });

  it("keeps every uid from new executors that has an entry, whoever made it", async () => {
    await registration.add(workload, signal);
    await another("owner-2").add({ ...workload, uid: 60_601 }, signal);
    const selectors = ["unix:gid:5", "unix:uid:60602", "unix:path:/usr/bin/60603"];
    entries.put({ id: "by-hand", spiffeId, parentId, selectors });
    assert.deepEqual(await registration.reservedUids(signal), new Set([60_600, 60_601, 60_602]));
  });

  it("lets a uid rest until the agent has heard that its entry is gone", async () => {
    await registration.add(workload, signal);
    await registration.remove(workload, signal);
    assert.deepEqual(await registration.reservedUids(signal), new Set([60_600]));
    await clock.step(uidRestMs - 1);
    assert.deepEqual(await registration.reservedUids(signal), new Set([60_600]));
    await clock.step(1);
    assert.deepEqual(await registration.reservedUids(signal), new Set());
  });

  it("I5 sweeps what has no executor any more, of its own owner and kind only", async () => {
    await registration.add(workload, signal);
    await registration.add({ ...workload, name: "gitea-task-8-1-0123abcd", uid: 60_601 }, signal);
    await another("owner-2").add({ ...workload, uid: 60_602 }, signal);
    await another("owner-1", "vm").add({ ...workload, uid: 60_803 }, signal);
    entries.put({
      id: "facade",
      spiffeId: "spiffe://example.org/facade",
      parentId,
      selectors: ["unix:uid:0"],
    });
    const removed = await registration.sweep(() => Promise.resolve(["gitea-task-8-1-0123abcd"]), signal);
    assert.deepEqual(removed, [name]);
    assert.deepEqual(ids(), [
      "ci.owner-1.pod.gitea-task-8-1-0123abcd",
      `ci.owner-2.pod.${name}`,
      `ci.owner-1.vm.${name}`,
      "facade",
    ]);
    assert.ok((await registration.reservedUids(signal)).has(60_600), "its uid rests");
  });

  it("does not sweep the entry of an executor that is started meanwhile, also where an old one had its id", async () => {
    await registration.add({ ...workload, uid: 60_666 }, signal);
    let added: Promise<void> | undefined;
    await registration.sweep(async () => {
      added = registration.add(workload, signal);
      await settle();
      return [];
    }, signal);
    await added;
    assert.deepEqual(
      entries.entries.map(({ selectors }) => selectors),
      [["unix:uid:60600"]],
    );
  });

  it("asks for the executors after the entries, for they are there before their entries are", async () => {
    const order: string[] = [];
    const watched = {
      ...entries,
      below: (parent: string, abort: AbortSignal) => {
        order.push("entries");
        return entries.below(parent, abort);
      },
    };
    await createSpireRegistration({ ...options(), entries: watched }).sweep(() => {
      order.push("executors");
      return Promise.resolve([]);
    }, signal);
    assert.deepEqual(order, ["entries", "executors"]);
  });
});
