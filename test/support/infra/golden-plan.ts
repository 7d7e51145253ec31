import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { stringify } from "yaml";
import type { Step } from "./use-pulumi.ts";

const folder = path.join(import.meta.dirname, "../../pulumi/plans");

/** What stands in every plan and is another in each run: where the test's servers are. */
const places: Readonly<Record<string, string>> = { kubeconfig: "(a file)", servers: "(an address)" };

/**
 * Compares a plan, resource by resource with all that it says, with the one that is kept in the repository; with UPDATE_PLANS
 * set it is kept instead.
 */
export async function assertGoldenPlan(name: string, steps: readonly Step[]): Promise<void> {
  const text = steps.map(textOf).toSorted().join("\n");
  const file = path.join(folder, `${name}.txt`);
  if ((process.env["UPDATE_PLANS"] ?? "") !== "") await writeFile(file, text);
  assert.equal(text, await readFile(file, "utf8"), `the plan of ${name} is another: see test/README.md`);
}

function textOf({ op, resource, newState: { inputs = {}, protect = false } = {} }: Step): string {
  const lines = stringify(withoutPlaces(inputs), { lineWidth: 0, sortMapEntries: true });
  const said = lines.trim() === "{}" ? "" : lines.replaceAll(/^(?=.)/gm, "    ");
  return `${op} ${resource}${protect ? ", protected" : ""}\n${said}`;
}

function withoutPlaces(inputs: object): object {
  const entries = Object.entries(inputs).filter(([key]) => key !== "__defaults");
  return Object.fromEntries(entries.map(([key, value]) => [key, places[key] ?? value]));
}
