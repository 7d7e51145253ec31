import { describe, it } from "mocha";
import { play } from "./scenario.ts";
import { scenarios } from "./scenarios.ts";

describe("a simulated controller", () => {
  for (const scenario of scenarios)
    it(scenario.name, async () => {
      await play(scenario);
    });
});
