import { z } from "zod";
import type { ClusterApi, KubernetesObject } from "./api.ts";
import { untilTrue } from "./component.ts";
import { hasCondition } from "./conditions.ts";

const collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const definitionSpec = z.object({
  group: z.string(),
  names: z.object({ plural: z.string() }),
  versions: z.array(z.object({ name: z.string(), served: z.boolean() })),
});

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
  // Established says that they are served; for a moment longer each answer may be that their storage begins.
  const listed = async (abort: AbortSignal) => {
    for (const { spec } of definitions) {
      const { group, names, versions } = definitionSpec.parse(spec);
      for (const { name } of versions.filter(({ served }) => served))
        await api.read(`/apis/${group}/${name}/${names.plural}?limit=1`, abort);
    }
    return true;
  };
  await untilTrue(listed, signal);
}
