import { executorName } from "../../assignment/executor-metadata.ts";
import { ApiOutage, ApiRefusal } from "../../kubernetes/kubernetes-api.ts";
import type { Clock } from "../../platform/clock.ts";
import { describeError } from "../../platform/errors.ts";
import { BackendError, type Executor, type ExecutorRequest } from "../backend.ts";
import type { ApiCollection } from "../../kubernetes/api-collection.ts";
import { createRefusal, withoutSecret } from "./create-refusal.ts";
import type { PodDocument } from "./pod-document.ts";
import { executorOfPod, existingExecutor, notAsAsked } from "./pod-executor.ts";
import { podManifest } from "./pod-patch.ts";
import type { PodBackendOptions } from "./pod-options.ts";
import type { PodView } from "./pod-view.ts";
import { ourPod } from "./our-pod.ts";

export type CreatePodOptions = Pick<PodBackendOptions, "owner" | "trustDomain" | "pods"> & {
  readonly view: PodView;
  readonly collection: ApiCollection;
  readonly clock: Pick<Clock, "now">;
};

export type CreatedPod = { readonly executor: Executor; readonly uid: string; readonly isNew: boolean };

/**
 * Makes the Pod of an attempt, or finds it. Whether a create without an answer has made it the API is asked; what
 * cannot be found out then is a retryable error, and the same name finds it. One that a webhook has made another
 * attempt's, or nobody's, is removed again: a terminal BackendError.
 */
export async function createPod(
  request: ExecutorRequest,
  options: CreatePodOptions,
  signal: AbortSignal,
): Promise<CreatedPod> {
  const { view, owner, trustDomain, clock } = options;
  const { metadata } = request;
  const name = executorName(metadata.assignment, metadata.attempt);
  if (metadata.owner !== owner || metadata.assignment.backend !== "pod")
    throw new BackendError("terminal", `${name} is for another controller or backend`);
  const read = (pod: PodDocument) =>
    executorOfPod(pod, view.stateOf(pod), { trustDomain, seenAt: clock.now() });
  const known = view.get(name) ?? (await make(name, request, options, signal));
  const isNew = "made" in known;
  const pod = isNew ? known.made : known;
  const found = read(pod);
  const wrong = isNew ? notAsAsked(found, metadata) : undefined;
  if (wrong !== undefined) {
    await unmake(pod, options, signal);
    throw new BackendError(
      "terminal",
      `Pod ${name} was not made as it was asked for: ${wrong}; a mutating webhook has to leave it as it is`,
      { reason: "config_error" },
    );
  }
  return { executor: existingExecutor(found, metadata), uid: pod.uid, isNew };
}

/** Nobody would ever find it, or it would take a slot until it is too old. That it is ours its UID says. */
async function unmake(
  { name, uid }: PodDocument,
  { view, collection }: CreatePodOptions,
  signal: AbortSignal,
): Promise<void> {
  view.discard(name);
  await collection.remove(name, { uid }, signal);
  await view.fetch(name, signal);
}

async function make(
  name: string,
  request: ExecutorRequest,
  { view, collection, owner, pods, clock }: CreatePodOptions,
  signal: AbortSignal,
): Promise<PodDocument | { readonly made: PodDocument }> {
  const { CI_RUNNER_CAPABILITY: capability } = request.environment;
  if (view.goneState(name) !== undefined)
    throw new BackendError("retryable", `Pod ${name} was made and is gone: the attempt is lost`);
  try {
    const made = await collection.create(podManifest(request, pods, clock.now()), signal);
    return { made: view.note(made) };
  } catch (error) {
    if (error instanceof ApiRefusal) {
      const refusal = createRefusal(name, error.status, error.body, capability);
      if (refusal.kind === "refused") throw refusal.error;
    } else if (!(error instanceof ApiOutage)) throw error;
    const found = await ourPod(name, { view, owner }, signal);
    if (found !== undefined) return found;
    const words = withoutSecret(describeError(error), capability);
    throw new BackendError(
      "retryable",
      `creating Pod ${name} came to no answer, and it is not there: ${words}`,
    );
  }
}
