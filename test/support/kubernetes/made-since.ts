import * as z from "zod";
import type { Kubernetes } from "../../../scripts/peers/cluster/kubernetes.ts";

const objectSchema = z.object({ metadata: z.object({ name: z.string() }) });
const listSchema = z.object({ metadata: z.object({ resourceVersion: z.string() }) });
const eventSchema = z.object({ type: z.string(), object: objectSchema });

/** The server tells all that it remembers at once; then it waits for more until so long after it was asked. */
const tellSeconds = 4;

/**
 * Notes where a collection stands; resolves to a question which names everything that was made in it from then on, be it
 * gone since or not.
 */
export async function watchMade({ api }: Kubernetes, collection: string) {
  const soon = () => AbortSignal.timeout(30_000);
  const { metadata } = listSchema.parse(await api.read(collection, soon()));
  const query = `watch=true&resourceVersion=${metadata.resourceVersion}&timeoutSeconds=${tellSeconds}`;
  return async (): Promise<readonly string[]> => {
    const { status, text } = await api.ask("GET", `${collection}?${query}`, soon());
    if (status !== 200) throw new Error(`watching ${collection}: ${status} ${text.slice(0, 500)}`);
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => eventSchema.parse(JSON.parse(line)))
      .filter(({ type }) => type === "ADDED")
      .map(({ object }) => object.metadata.name);
  };
}
