import { parseFailPoint } from "./chaos/fail-point.ts";
import { patchSource } from "./patch-source.ts";

/*
 * Preloaded into a controller's process (`node --import`): FAIL_POINT=<name>:<nth>:<before|after> names the moment at
 * which it kills itself. The core is given ports that count and kill; nothing of it is in the product.
 */
parseFailPoint(process.env["FAIL_POINT"]);
patchSource({
  file: "controller/controller.ts",
  from: 'from "./core.ts"',
  to: `from ${JSON.stringify(import.meta.resolve("./chaos/failing-core.ts"))}`,
});
