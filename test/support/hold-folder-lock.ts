import { lockFolder } from "../../controller/lifecycle/controller-lock.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createLogger } from "../../controller/platform/logger.ts";

/** A controller that does nothing but lead on the folder named by its argument; says so, and ends when killed. */
const [, , folder = ""] = process.argv;
await lockFolder(folder, systemClock, createLogger("error"), new AbortController().signal);
process.stdout.write("locked\n");
