import type { FailureReason } from "../../assignment/failure-reasons.ts";
import type { PodSettings } from "./pod-settings.ts";

/** Of the image: pulling it is all that it takes to see them. */
const ofImage: ReadonlySet<FailureReason> = new Set([
  "image_missing",
  "image_invalid",
  "image_pull_refused",
  "image_pull_slow",
  "registry_down",
]);

/**
 * A command that shows an operator why an executor failed: it pulls the same image in the same place, or it lists the
 * events of the Pod, which stay for an hour after it is gone.
 */
export function podCommand(
  { namespace, image, serviceAccount }: Pick<PodSettings, "namespace" | "image" | "serviceAccount">,
  executor: string,
  reason: FailureReason,
): string {
  if (!ofImage.has(reason))
    return `kubectl -n ${namespace} get events --field-selector involvedObject.name=${executor}`;
  const spec = quoted(JSON.stringify({ spec: { serviceAccountName: serviceAccount } }));
  return `kubectl -n ${namespace} run image-check --rm -i --restart=Never --overrides=${spec} --image=${quoted(image)} --command -- true`;
}

function quoted(word: string): string {
  return /^[\w.:/@-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
