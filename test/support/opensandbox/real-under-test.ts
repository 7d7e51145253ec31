import { systemClock } from "../../../controller/platform/clock.ts";
import type { OpenSandboxLab } from "./use-opensandbox.ts";
import { createPlayedPools } from "./played-pools.ts";
import type { OpenSandboxUnderTest } from "./under-test.ts";

const { signal } = new AbortController();

/** A real server for the contract suite. Disposing of it removes all sandboxes, and leaves the server to the other tests. */
export function realUnderTest(lab: OpenSandboxLab): OpenSandboxUnderTest {
  const { server, apiServer, resources } = lab;
  const { createSeconds, poolSeconds, lifeSeconds } = server.settings;
  const store = apiServer.components.apiServer;
  return {
    url: server.url,
    key: server.key,
    limits: { createMs: createSeconds * 1000, poolMs: poolSeconds * 1000, lifeSeconds },
    clock: systemClock,
    pass: (ms) => systemClock.sleep(ms, signal),
    pools: createPlayedPools(resources),
    restart: async () => {
      await server.kill();
      await server.component.start(signal);
    },
    setStoreAway: (away) => (away ? store.stop() : store.start(signal)),
    [Symbol.asyncDispose]: () => lab.removeAll(),
  };
}
