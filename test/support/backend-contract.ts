import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import type { Assignment } from "../../controller/assignment/assignment.ts";
import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import { executorEnvironment } from "../../controller/assignment/executor-environment.ts";
import { type ExecutorMetadata, executorName } from "../../controller/assignment/executor-metadata.ts";
import {
  type Backend,
  BackendError,
  type Executor,
  type ExecutorRequest,
  type ExecutorState,
} from "../../controller/backends/backend.ts";
import { abortable } from "../../controller/platform/signal.ts";
import { anAssignment, anAttempt, anExecutorMetadata } from "./builders.ts";

/** A backend with what a test needs to know and do behind its back. Its executors run until told otherwise. */
export type BackendUnderTest = AsyncDisposable & {
  /** For `anExecutorMetadata().owner` and `testTrustDomain`. */
  readonly backend: Backend;
  /** A new backend object over the same world, as after a restart of the controller. */
  restarted(): Promise<Backend>;
  /** The backend of another controller in the same world. */
  ofOwner(owner: string): Promise<Backend>;
  /** What the executor's identity waits for comes to be. */
  makeBindable(name: string): Promise<void>;
  /** The executor's program ends by itself, leaving what the job left running. */
  end(name: string): Promise<void>;
  /** Somebody damages its metadata, but not the owner. */
  spoil(name: string): Promise<void>;
  /** Milliseconds since the epoch, in the backend's world … */
  now(): number;
  /** … where that much time goes by. */
  pass(ms: number): Promise<void>;
  /** An executor that may live this long is still there when it has been seen to run; 1,500 ms unless given. */
  readonly lifeMs?: number;
  /** What still runs of it. */
  running(name: string): Promise<readonly string[]>;
  /** All that is still there of it: processes, objects, files, registration. */
  remains(name: string): Promise<readonly string[]>;
  /** What runs executors can only delete them: one that was killed is known by memory, and gone after a restart. */
  readonly forgetsKilled?: true;
  /** A name is unknown to what runs executors: another owner may have an executor of the same, and it is not this one. */
  readonly namesPerOwner?: true;
};

/** A request for an executor of that kind; what is overridden shows in its environment. */
export function anExecutorRequest(
  kind: BackendKind,
  overrides: Partial<Omit<ExecutorMetadata, "assignment">> & {
    readonly assignment?: Partial<Assignment>;
  } = {},
): ExecutorRequest {
  const assignment = anAssignment({ backend: kind, ...overrides.assignment });
  const metadata = anExecutorMetadata({ ...overrides, assignment });
  const facade = { url: "https://facade.example:8443", spiffeId: "spiffe://example.org/ci-controller" };
  return {
    metadata,
    environment: executorEnvironment(assignment, "1.capability.of-the-attempt", facade),
    deadlineAt: Date.parse("2100-01-01T00:00:00Z"),
  };
}

/** Resolves when the backend lists the executor in that phase, looking again at each change that it tells of. */
export async function reaches<P extends ExecutorState["phase"]>(
  backend: Backend,
  name: string,
  phase: P,
): Promise<Executor & { readonly state: Extract<ExecutorState, { phase: P }> }> {
  const deadline = AbortSignal.timeout(50_000);
  for (;;) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const stop = backend.onChange(() => resolve());
    try {
      const { executors } = await backend.list(deadline);
      const found = executors.find((executor) => executor.name === name);
      if (found?.state.phase === phase) return found as Awaited<ReturnType<typeof reaches<P>>>;
      await abortable(promise, deadline);
    } finally {
      stop();
    }
  }
}

/** The rules of the contract that every backend keeps, the fake included. */
export function describeBackend(
  title: string,
  kind: BackendKind,
  make: () => Promise<BackendUnderTest>,
): void {
  describe(title, () => {
    const { signal } = new AbortController();
    let world: BackendUnderTest;
    let backend: Backend;

    beforeEach(async () => {
      world = await make();
      ({ backend } = world);
    });
    afterEach(() => world[Symbol.asyncDispose]());

    const request = (overrides: Parameters<typeof anExecutorRequest>[1] = {}) =>
      anExecutorRequest(kind, overrides);
    const created = async (overrides: Parameters<typeof anExecutorRequest>[1] = {}) => {
      const asked = request(overrides);
      const executor = await backend.create(asked, signal);
      assert.equal(executor.name, executorName(asked.metadata.assignment, asked.metadata.attempt));
      return executor;
    };
    const names = async (from: Backend) => (await from.list(signal)).executors.map(({ name }) => name);
    const refused = (kinds: readonly BackendError["kind"][]) => (error: unknown) => {
      assert.ok(error instanceof BackendError, String(error));
      assert.ok(kinds.includes(error.kind), `${error.kind}: ${error.message}`);
      return true;
    };

    it("has nothing at first, and is of its kind", async () => {
      assert.equal(backend.kind, kind);
      assert.deepEqual(await backend.list(signal), { executors: [], invalid: [] });
    });

    it("B-06 lists what it created, with all of its metadata, also after a restart", async () => {
      const executor = await created({ assignment: { trust: "fork", jobKey: "deploy" } });
      await reaches(backend, executor.name, "running");
      const again = await world.restarted();
      const { executors, invalid } = await again.list(signal);
      assert.deepEqual(invalid, []);
      assert.equal(executors.length, 1);
      const [found] = executors;
      assert.deepEqual(
        found?.metadata,
        request({ assignment: { trust: "fork", jobKey: "deploy" } }).metadata,
      );
      assert.equal(found.state.phase, "running");
      assert.equal(found.createdAt, executor.createdAt);
    });

    it("creates one executor for a request that comes twice, also at the same time and after a restart", async () => {
      const [first, second] = await Promise.all([created(), created()]);
      const third = await (await world.restarted()).create(request(), signal);
      for (const other of [second, third]) {
        assert.equal(other.name, first.name);
        assert.deepEqual(other.metadata, first.metadata);
        assert.equal(other.createdAt, first.createdAt);
      }
      assert.deepEqual(await names(backend), [first.name]);
    });

    it("keeps the executors of two attempts and of two assignments apart", async () => {
      const executors = [
        await created(),
        await created({ attempt: anAttempt({ number: 2 }) }),
        await created({ assignment: { taskId: 43n } }),
      ];
      assert.deepEqual(new Set(await names(backend)), new Set(executors.map(({ name }) => name)));
      await backend.delete(executors[1]!.name, signal);
      assert.deepEqual(new Set(await names(backend)), new Set([executors[0]!.name, executors[2]!.name]));
      assert.notDeepEqual(await world.running(executors[0]!.name), []);
    });

    it("refuses to create over an executor of the same name that is something else", async () => {
      const { name } = await created();
      const nonce = `${anAttempt().nonce.slice(0, 8)}${"f".repeat(24)}`;
      const others = [
        request({ attempt: anAttempt({ nonce }) }),
        request({ assignment: { repository: "acme/gadgets" } }),
      ];
      for (const other of others) {
        assert.equal(executorName(other.metadata.assignment, other.metadata.attempt), name);
        await assert.rejects(backend.create(other, signal), refused(["terminal"]));
      }
      assert.deepEqual((await reaches(backend, name, "running")).metadata, request().metadata);
    });

    it("does not create for another owner or another kind", async () => {
      const other = kind === "pod" ? "vm" : "pod";
      await assert.rejects(
        backend.create(request({ owner: "somebody-else" }), signal),
        refused(["terminal"]),
      );
      await assert.rejects(
        backend.create(request({ assignment: { backend: other } }), signal),
        refused(["terminal"]),
      );
      assert.deepEqual(await names(backend), []);
    });

    it("does not find an executor that has ended: the attempt is lost", async () => {
      const { name } = await created();
      await world.end(name);
      await reaches(backend, name, "ended");
      await assert.rejects(backend.create(request(), signal), refused(["retryable", "terminal"]));
      assert.deepEqual(await world.running(name), []);
    });

    it("binds the identity as soon as its target is known, and again", async () => {
      const executor = await created();
      const binding = backend.bindIdentity(executor, signal);
      await world.makeBindable(executor.name);
      assert.deepEqual(await binding, { bound: true });
      assert.deepEqual(await backend.bindIdentity(executor, signal), { bound: true });
      assert.deepEqual(await (await world.restarted()).bindIdentity(executor, signal), { bound: true });
    });

    it("B-52 remembers over a restart that Gitea accepted the result, and goes on running", async () => {
      const { name } = await created();
      await backend.markTerminal(name, signal);
      await backend.markTerminal(name, signal);
      const { metadata } = await reaches(await world.restarted(), name, "running");
      assert.deepEqual(metadata, { ...request().metadata, terminal: true });
    });

    it("marks also an executor that has ended", async () => {
      const { name } = await created();
      await world.end(name);
      await reaches(backend, name, "ended");
      await backend.markTerminal(name, signal);
      assert.equal((await reaches(backend, name, "ended")).metadata.terminal, true);
    });

    it("kills an executor, for a reason that stays when it is killed again", async () => {
      const { name } = await created();
      await reaches(backend, name, "running");
      await backend.kill(name, "no claim in time", signal);
      assert.deepEqual(await world.running(name), []);
      await backend.kill(name, "another reason", signal);
      const again = await world.restarted();
      if (world.forgetsKilled) assert.deepEqual(await again.list(signal), { executors: [], invalid: [] });
      const { state, metadata } = await reaches(world.forgetsKilled ? backend : again, name, "ended");
      assert.equal(state.reason, "no claim in time");
      assert.deepEqual(metadata, request().metadata);
    });

    it("leaves nothing behind when a running executor is deleted", async () => {
      const executor = await created();
      await world.makeBindable(executor.name);
      await backend.bindIdentity(executor, signal);
      assert.notDeepEqual(await world.remains(executor.name), []);
      await backend.delete(executor.name, signal);
      assert.deepEqual(await world.remains(executor.name), []);
      assert.deepEqual(await backend.list(signal), { executors: [], invalid: [] });
    });

    it("leaves nothing behind when a killed executor is deleted, also by two at once", async () => {
      const { name } = await created();
      await backend.kill(name, "silence", signal);
      await Promise.all([backend.delete(name, signal), backend.delete(name, signal)]);
      await backend.delete(name, signal);
      assert.deepEqual(await world.remains(name), []);
    });

    it("takes an executor that is gone for marked, killed and deleted", async () => {
      const { assignment, attempt } = request().metadata;
      const name = executorName(assignment, attempt);
      await backend.markTerminal(name, signal);
      await backend.kill(name, "gone", signal);
      await backend.delete(name, signal);
      assert.deepEqual(await backend.list(signal), { executors: [], invalid: [] });
      assert.deepEqual(await world.remains(name), []);
    });

    it("can create an attempt anew after it was deleted", async () => {
      const { name } = await created();
      await backend.delete(name, signal);
      await created();
      await reaches(backend, name, "running");
    });

    it("neither lists nor touches another owner's executors", async () => {
      const { name } = await created();
      const stranger = await world.ofOwner("somebody-else");
      assert.deepEqual(await stranger.list(signal), { executors: [], invalid: [] });
      const acts: readonly (() => Promise<unknown>)[] = [
        () => stranger.kill(name, "mine", signal),
        () => stranger.delete(name, signal),
        () => stranger.markTerminal(name, signal),
        () => stranger.create(request({ owner: "somebody-else" }), signal),
      ];
      for (const act of acts)
        if (world.namesPerOwner) await act();
        else await assert.rejects(act, refused(["terminal"]));
      assert.deepEqual(await names(stranger), world.namesPerOwner ? [name] : []);
      const { metadata } = await reaches(backend, name, "running");
      assert.deepEqual(metadata, request().metadata);
      assert.notDeepEqual(await world.running(name), []);
    });

    it("tells which executor's metadata does not hold, and goes on with the others", async () => {
      const { name: spoilt } = await created();
      const { name: sound } = await created({ assignment: { taskId: 43n } });
      await world.spoil(spoilt);
      for (const each of [backend, await world.restarted()]) {
        const { executors, invalid } = await each.list(signal);
        assert.deepEqual(
          executors.map(({ name }) => name),
          [sound],
        );
        assert.deepEqual(
          invalid.map(({ name }) => name),
          [spoilt],
        );
        assert.match(invalid[0]?.reason ?? "", /ci\.ddupan\.top\//);
      }
      const { name: another } = await created({ assignment: { taskId: 44n } });
      await reaches(backend, another, "running");
      assert.notDeepEqual(await world.running(spoilt), []);
    });

    it("deletes an executor whose metadata does not hold", async () => {
      const { name } = await created();
      await world.spoil(name);
      await backend.delete(name, signal);
      assert.deepEqual(await world.remains(name), []);
    });

    it("tells when an executor ends by itself, until nobody listens any more", async () => {
      const { name } = await created();
      await reaches(backend, name, "running");
      let told = 0;
      const stop = backend.onChange((changed) => {
        if (changed === undefined || changed === name) told++;
      });
      await world.end(name);
      const { state } = await reaches(backend, name, "ended");
      assert.notEqual(state.reason, "");
      assert.ok(told > 0);
      stop();
      const before = told;
      await backend.delete(name, signal);
      assert.equal(told, before);
    });

    it("tells of an end that happens after a restart", async () => {
      const { name } = await created();
      const again = await world.restarted();
      await reaches(again, name, "running");
      await world.end(name);
      await reaches(again, name, "ended");
    });

    it("says that an executor has ended only when nothing of the job runs any more", async () => {
      const { name } = await created();
      await reaches(backend, name, "running");
      await world.end(name);
      await reaches(backend, name, "ended");
      assert.deepEqual(await world.running(name), []);
      await backend.kill(name, "too late", signal);
      const { state } = await reaches(backend, name, "ended");
      assert.notEqual(state.reason, "too late");
    });

    it("ends an executor at its deadline, whatever runs, says so, and knows the deadline after a restart", async () => {
      const { lifeMs = 1_500 } = world;
      const asked = { ...request(), deadlineAt: world.now() + lifeMs };
      const { name } = await backend.create(asked, signal);
      await reaches(backend, name, "running");
      const again = await world.restarted();
      await reaches(again, name, "running");
      await world.pass(lifeMs);
      const { state } = await reaches(again, name, "ended");
      assert.equal(state.cause, "deadline");
      assert.deepEqual(await world.running(name), []);
    });

    it("does not call its own kill a death from outside", async () => {
      const { name } = await created();
      await backend.kill(name, "its task is over", signal);
      const { state } = await reaches(backend, name, "ended");
      assert.equal(state.reason, "its task is over");
      assert.equal(state.cause, undefined);
    });

    it("rejects with the reason of a signal that is aborted already, and does nothing", async () => {
      const { name } = await created();
      const reason = new Error("shutting down");
      const aborted = AbortSignal.abort(reason);
      const calls: readonly (() => Promise<unknown>)[] = [
        () => backend.list(aborted),
        () => backend.create(request({ assignment: { taskId: 43n } }), aborted),
        () => backend.markTerminal(name, aborted),
        () => backend.kill(name, "aborted", aborted),
        () => backend.delete(name, aborted),
      ];
      for (const act of calls) await assert.rejects(act, reason);
      assert.deepEqual(await names(backend), [name]);
      assert.equal((await reaches(backend, name, "running")).metadata.terminal, false);
    });
  });
}
