import { readFileSync } from "node:fs";
import path from "node:path";
import { parse } from "yaml";
import { kubeContext } from "./use-kubernetes.ts";

const digest = `sha256:${"a".repeat(64)}`;
const prefix = "gitea-dynamic-runner:";

/**
 * What a stack's file in the repository says, by key, for the cluster and the NATS server of a test, and with images that
 * need not be built. What the controller is told stays as the file says it.
 */
export function repositoryStack(
  name: "prod" | "dev",
  provisionUrl: string,
  overrides: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> {
  const file = path.join(import.meta.dirname, `../../../stacks/Pulumi.${name}.yaml`);
  const { config } = parse(readFileSync(file, "utf8")) as { config: Readonly<Record<string, unknown>> };
  const said = Object.fromEntries(
    Object.entries(config).map(([key, value]) => [key.slice(prefix.length), value]),
  );
  const { pullRegistry } = said["images"] as { readonly pullRegistry: string };
  return {
    ...said,
    kubeContext,
    nats: { ...(said["nats"] as object), provisionUrl },
    images: { source: "published", pullRegistry, controller: { digest }, runner: { digest } },
    ...overrides,
  };
}
