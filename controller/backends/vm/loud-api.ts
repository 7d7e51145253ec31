import { OpenSandboxError, type OpenSandboxApi } from "../../opensandbox/opensandbox-api.ts";
import type { Clock } from "../../platform/clock.ts";
import { describeError } from "../../platform/errors.ts";
import { createLogLimit } from "../../platform/log-limit.ts";
import type { Logger } from "../../platform/logger.ts";

/** What only somebody's hand can change is told this often. */
const tellMs = 60_000;

/** The same calls. What no waiting puts right is told as an error: a wrong key, a pool that does not exist. */
export function loudApi(api: OpenSandboxApi, clock: Pick<Clock, "now">, log: Logger): OpenSandboxApi {
  const told = createLogLimit({ everyMs: tellMs, maxKeys: 10 }, clock);
  const tell = (sentence: string, error: string) => {
    const due = told.due(sentence);
    if (due !== undefined) log.error({ error, leftOut: due.leftOut }, sentence);
  };
  const loud = async <T>(call: Promise<T>): Promise<T> => {
    try {
      return await call;
    } catch (error) {
      if (error instanceof OpenSandboxError && error.trouble === "unauthorized")
        tell("the sandbox server refuses our key, no vm can be made or seen", describeError(error));
      if (error instanceof OpenSandboxError && error.trouble === "no_pool")
        tell("the pool of vms does not exist, none can be made", describeError(error));
      throw error;
    }
  };
  return {
    create: (sandbox, signal) => loud(api.create(sandbox, signal)),
    get: (id, signal) => loud(api.get(id, signal)),
    list: (filter, signal) => loud(api.list(filter, signal)),
    addMetadata: (id, metadata, signal) => loud(api.addMetadata(id, metadata, signal)),
    delete: (id, signal) => loud(api.delete(id, signal)),
    pool: async (name, signal) => {
      const found = await loud(api.pool(name, signal));
      if (found === undefined)
        tell("the pool of vms does not exist, none can be made", `there is no pool ${name}`);
      return found;
    },
    close: () => {
      api.close();
    },
  };
}
