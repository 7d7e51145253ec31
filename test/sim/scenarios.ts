import { kept } from "./kept.ts";
import type { Scenario } from "./scenario.ts";
import { scenariosOfEnds } from "./scenarios-of-ends.ts";
import { scenariosOfStarts } from "./scenarios-of-starts.ts";
import { scenariosOfStores } from "./scenarios-of-stores.ts";

export const scenarios: readonly Scenario[] = [
  ...scenariosOfStarts,
  ...scenariosOfEnds,
  ...scenariosOfStores,
];

/** One of these, or of the kept ones. */
export function scenarioNamed(name: string): Scenario {
  const scenario = [...scenarios, ...kept].find((one) => one.name === name);
  if (scenario === undefined) throw new Error(`there is no scenario "${name}"`);
  return scenario;
}
