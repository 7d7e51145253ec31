import { describeCollections } from "./collections.ts";
import { describeObjects } from "./objects.ts";
import { describeOurs } from "./ours.ts";
import type { KubernetesUnderTest } from "./under-test.ts";

/** What the controller relies on of an API server: the real one and the fake do the same. `make` is called for each test. */
export function describeKubernetes(make: () => Promise<KubernetesUnderTest>): void {
  describeObjects(make);
  describeCollections(make);
  describeOurs(make);
}
