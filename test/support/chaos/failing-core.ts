import { flushCompileCache } from "node:module";
import * as real from "../../../controller/core.ts";
import { createStrike, parseFailPoint } from "./fail-point.ts";
import { failingPorts } from "./failing-ports.ts";

/** Stands in the place of the real one, between ports that kill this process at its fail point. */
export const createCore: typeof real.createCore = (settings, ports) => {
  const { FAIL_POINT: point, FAIL_POINT_STORED: storedTasks } = process.env;
  // Node keeps what it has compiled at its end, which this process does not come to.
  flushCompileCache();
  const strike = createStrike(parseFailPoint(point), Number(storedTasks ?? 0));
  return real.createCore(settings, failingPorts(ports, strike));
};
