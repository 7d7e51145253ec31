import path from "node:path";
import { randomUUID } from "node:crypto";
import { createHttpApi } from "../../../controller/opensandbox/http-api.ts";
import type { OpenSandboxApi } from "../../../controller/opensandbox/opensandbox-api.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { prepareOpenSandboxLab } from "../../../scripts/peers/opensandbox/prepare-lab.ts";
import {
  type OpenSandboxOptions,
  type OpenSandboxServer,
  startOpenSandbox,
} from "../../../scripts/peers/opensandbox/start-server.ts";
import { createReport } from "../../../scripts/peers/report.ts";
import { eventually } from "../eventually.ts";
import { newName } from "./under-test.ts";
import type { OpenSandboxLab } from "./use-opensandbox.ts";
import { startWithheldWatches } from "./withheld-watches.ts";

/** One more real OpenSandbox server over the same sandboxes, whose view of them can be made to stand still. */
export type FreezableServer = AsyncDisposable & {
  readonly server: OpenSandboxServer;
  /** A client of it. */
  readonly api: OpenSandboxApi;
  /**
   * From now on it answers by what is there at this moment, for as long as nothing is changed by way of it. Resolves when that
   * is seen. It reads anew by itself when it has heard nothing for five minutes, which by default is one.
   */
  freeze(): Promise<void>;
  thaw(): void;
};

/** It reads all anew after 300 s in any case. */
const watchSeconds = 290;

/** A server that is changed through itself reads past its own view until its watch ends; the freezing ends it. */
export async function startFreezableServer(
  { folder, apiServer, server: other, resources }: OpenSandboxLab,
  times: Pick<OpenSandboxOptions, "createSeconds" | "poolSeconds" | "lifeSeconds">,
  signal: AbortSignal,
): Promise<FreezableServer> {
  await using stack = new AsyncDisposableStack();
  const name = newName("freezable");
  const { server: peer } = await prepareOpenSandboxLab({ report: createReport() }, signal);
  const watches = stack.use(
    await startWithheldWatches(apiServer.kubeconfig, path.join(folder.path, `${name}-proxy`), signal),
  );
  const place = { folder: await folder.below(name), peer, namespace: other.settings.namespace };
  const server = stack.use(
    await startOpenSandbox({ ...place, kubeconfig: watches.kubeconfig, watchSeconds, ...times }, signal),
  );
  const key = () => Promise.resolve(server.key);
  const api = createHttpApi({ url: server.url, key, requestId: randomUUID, clock: systemClock });
  stack.defer(() => api.close());

  /** Whether something that is made now is in its list. */
  const sees = async (): Promise<boolean> => {
    const marker = newName("marker");
    await resources.make(marker, "none", { marker }, signal);
    try {
      return (await api.list({ marker }, signal)).length > 0;
    } finally {
      await resources.remove(marker, signal);
    }
  };
  const all = stack.move();
  return {
    server,
    api,
    freeze: async () => {
      watches.release();
      await eventually("it has heard of all that is there", sees, 90_000);
      watches.withhold();
      await eventually("its view stands still", async () => !(await sees()), 90_000);
    },
    thaw: () => watches.release(),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
