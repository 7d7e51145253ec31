import { BackendError } from "../backend.ts";
import type { PodDocument } from "./pod-document.ts";
import { belongsTo } from "./pod-executor.ts";
import type { PodView } from "./pod-view.ts";

/**
 * The Pod of that name, which may be changed and removed since it is ours; undefined if there is none. What the watch
 * does not know the API is asked for: it may be behind, or the Pod may be somebody else's. That is a terminal
 * BackendError.
 */
export async function ourPod(
  name: string,
  { view, owner }: { readonly view: Pick<PodView, "get" | "goneState" | "fetch">; readonly owner: string },
  signal: AbortSignal,
): Promise<PodDocument | undefined> {
  const known = view.get(name);
  if (known === undefined && view.goneState(name)?.phase === "ended") return undefined;
  const pod = known ?? (await view.fetch(name, signal));
  if (pod !== undefined && !belongsTo(pod, owner))
    throw new BackendError("terminal", `Pod ${name} is not ours: it has another owner or backend`);
  return pod;
}
