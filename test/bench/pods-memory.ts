import { writeSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { memorySignal, memoryTold } from "./pods-process.ts";

// Preloaded into a controller: when it is told to, it throws away what nobody needs any more, and says what is left.
setFlagsFromString("--expose-gc");
const collect: unknown = runInNewContext("gc");
process.on(memorySignal, () => {
  if (typeof collect === "function") collect();
  const { rss, heapUsed, external } = process.memoryUsage();
  writeSync(2, `${JSON.stringify({ level: "info", msg: memoryTold, rss, heapUsed, external })}\n`);
});
