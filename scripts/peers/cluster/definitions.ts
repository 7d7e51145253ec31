import type { ClusterApi, KubernetesObject } from "./api.ts";
import { untilTrue } from "./component.ts";
import { hasCondition } from "./conditions.ts";

const collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** Makes custom resources known, and waits until they can be used. */
export async function establishDefinitions(
  api: ClusterApi,
  definitions: readonly KubernetesObject[],
  signal: AbortSignal,
): Promise<void> {
  for (const definition of definitions) await api.ensure(collection, definition, signal);
  const established = async (abort: AbortSignal) => {
    for (const { metadata } of definitions) {
      const definition = await api.read(`${collection}/${metadata.name}`, abort);
      if (!hasCondition(definition, "Established")) return false;
    }
    return true;
  };
  await untilTrue(established, signal);
}
