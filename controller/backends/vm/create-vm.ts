import { InvalidAssignmentError } from "../../assignment/errors.ts";
import { type ExecutorMetadata, executorName, type Texts } from "../../assignment/executor-metadata.ts";
import type { NewSandbox } from "../../opensandbox/opensandbox-api.ts";
import { describeError } from "../../platform/errors.ts";
import { withDeadline } from "../../platform/signal.ts";
import { BackendError, type Executor, type ExecutorRequest } from "../backend.ts";
import type { KnownSandbox } from "./known-sandboxes.ts";
import { asWanted, sandboxMetadata } from "./sandbox-executor.ts";
import type { VmWorld } from "./vm-world.ts";
import { createFailure } from "./create-failure.ts";
import { removeSandbox } from "./remove-sandbox.ts";
import { searchVm } from "./search-vm.ts";

/** The image of the pool starts it; it starts the bootstrap. */
const entrypoint = ["gitea-opensandbox-runner"];

/** What takes longer to go is left to whoever lists. */
const sweepMs = 10_000;

/** The server takes no shorter life. */
const shortestSeconds = 60;

/**
 * Makes the VM of an attempt, or finds it. The server knows no create again that it has seen before, so that each attempt
 * is asked for once at most: when there is no answer that tells, or an earlier controller may have asked, it is looked
 * for as long as it may still come, and then given up. That is a terminal BackendError of reason `backend_down`, which
 * burns no attempt; until then it is a retryable one. Only after an answer by which nothing was made is the same attempt
 * asked for again. Not to be called twice at once for the same attempt.
 */
export async function createVm(
  request: ExecutorRequest,
  world: VmWorld,
  signal: AbortSignal,
): Promise<Executor> {
  const { known, reader, asked, owner } = world;
  const { metadata, mayBeUnderWay = false } = request;
  const name = executorName(metadata.assignment, metadata.attempt);
  if (metadata.owner !== owner || metadata.assignment.backend !== "vm")
    throw new BackendError("terminal", `${name} is for another controller or backend`);
  const labels = metadataOf(request, name, world);
  signal.throwIfAborted();
  const [there] = known.of(name);
  if (there !== undefined) return handOut(there, metadata, world);
  const before = asked.of(name, mayBeUnderWay);
  const [found] = await reader.readOf(name, signal);
  if (found !== undefined) return handOut(found, metadata, world);
  if (before.kind !== "nothing") return search(name, metadata, world, signal);
  return world.places.within(() => ask(name, labels, request, world, signal), signal);
}

function metadataOf(request: ExecutorRequest, name: string, { clock }: VmWorld): Texts {
  try {
    return sandboxMetadata(request, clock.now());
  } catch (cause) {
    if (!(cause instanceof InvalidAssignmentError)) throw cause;
    throw new BackendError("terminal", `${name} cannot be a VM: ${cause.message}`, {
      cause,
      reason: "config_error",
    });
  }
}

async function ask(
  name: string,
  metadata: Texts,
  request: ExecutorRequest,
  world: VmWorld,
  signal: AbortSignal,
): Promise<Executor> {
  const { api, identity, places, asked, known, log } = world;
  const told = await identity.prepare(request.metadata, signal);
  const sandbox = newSandbox(metadata, { ...request.environment, ...told }, request.deadlineAt, world);
  // From here on one may come of it, whatever becomes of us.
  signal.throwIfAborted();
  asked.sent(name);
  try {
    const made = await api.create(sandbox, signal);
    asked.settled(name);
    known.note(made, true);
    log.info({ executor: name, sandbox: made.id }, "executor sandbox created");
  } catch (cause) {
    const { nothingMade, error } = createFailure(`creating the VM ${name}`, cause);
    if (!nothingMade) {
      asked.leftOpen(name);
      signal.throwIfAborted();
      log.warn({ executor: name, error: error.message }, "executor sandbox may have been created");
      return search(name, request.metadata, world, signal);
    }
    asked.settled(name);
    if (error.reason === "no_vm") places.full(retryAfterOf(cause));
    await sweep(name, world, signal);
    throw error;
  }
  const [made] = known.of(name);
  if (made === undefined)
    throw new BackendError("terminal", `${name} was not made as it was asked for: it is not ours`);
  return handOut(made, request.metadata, world);
}

function newSandbox(
  metadata: Texts,
  environment: Texts,
  deadlineAt: number,
  { pool, clock, times }: VmWorld,
): NewSandbox {
  const lifeMs = deadlineAt + times.ttlMarginMs - clock.now();
  const timeoutSeconds = Math.max(shortestSeconds, Math.ceil(lifeMs / 1000));
  return { pool, entrypoint, environment, metadata, timeoutSeconds };
}

/** Goes on with an attempt of which a VM may still come. */
async function search(
  name: string,
  metadata: ExecutorMetadata,
  world: VmWorld,
  signal: AbortSignal,
): Promise<Executor> {
  const found = await searchVm(name, world, signal);
  if (found !== undefined) return handOut(found, metadata, world);
  world.asked.givenUp(name);
  throw new BackendError(
    "terminal",
    `whether the VM ${name} was made nobody can tell, and it has not come: another attempt is made instead`,
    { reason: "backend_down" },
  );
}

function handOut(found: KnownSandbox, wanted: ExecutorMetadata, { known, asked }: VmWorld): Executor {
  const executor = known.executorOf(found);
  if (executor === undefined) {
    const reason = found.reading.executor.kind === "invalid" ? found.reading.executor.reason : "";
    throw new BackendError("terminal", `${found.name} is there already: ${reason}`);
  }
  const wantedOne = asWanted(executor, wanted);
  asked.settled(found.name);
  known.handOut(found.id);
  return wantedOne;
}

/**
 * The server has made nothing, and removes what it had begun; if it fails to, a VM may come of that later. What cannot be
 * removed now is found by the next create, or by whoever lists.
 */
async function sweep(name: string, world: VmWorld, signal: AbortSignal): Promise<void> {
  const { known, reader, clock, log } = world;
  const remove = async (abort: AbortSignal) => {
    for (const { id } of await reader.readOf(name, abort)) {
      known.forget(id, await removeSandbox(id, world, abort));
    }
  };
  try {
    await withDeadline(clock, sweepMs, remove, signal);
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ executor: name, error: describeError(error) }, "removing what is left of a create failed");
  }
}

function retryAfterOf(error: unknown): number | undefined {
  return error instanceof Error && "retryAfterMs" in error && typeof error.retryAfterMs === "number"
    ? error.retryAfterMs
    : undefined;
}
