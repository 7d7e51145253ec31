import { createHttpApi } from "../../controller/opensandbox/http-api.ts";
import type { HttpApiOptions } from "../../controller/opensandbox/ask.ts";
import type { NewSandbox, OpenSandboxApi } from "../../controller/opensandbox/opensandbox-api.ts";
import { createFakeClock, type FakeClock } from "../fakes/fake-clock.ts";
import {
  type FakeOpenSandbox,
  type FakeOpenSandboxOptions,
  startFakeOpenSandbox,
} from "../fakes/opensandbox/fake-opensandbox.ts";

export const plantedKey = "planted-key-of-the-server";

/** A fake OpenSandbox server with a stepped clock, and our client to it. */
export type ServedOpenSandbox = AsyncDisposable & {
  readonly clock: FakeClock;
  readonly server: FakeOpenSandbox;
  readonly api: OpenSandboxApi;
};

export async function startServedOpenSandbox(
  client: Partial<HttpApiOptions> = {},
  options: Partial<FakeOpenSandboxOptions> = {},
): Promise<ServedOpenSandbox> {
  const clock = createFakeClock();
  const server = await startFakeOpenSandbox({ clock, key: plantedKey, ...options });
  let requests = 0;
  const api = createHttpApi({
    url: server.url,
    key: () => Promise.resolve(server.key),
    requestId: () => `request-${++requests}`,
    clock,
    ...client,
  });
  return {
    clock,
    server,
    api,
    [Symbol.asyncDispose]: async () => {
      api.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

export function aNewSandbox(parts: Partial<NewSandbox> = {}): NewSandbox {
  return {
    pool: "ci-vm",
    entrypoint: ["gitea-opensandbox-runner"],
    environment: {},
    metadata: { "ci.ddupan.top/owner": "us" },
    timeoutSeconds: 600,
    ...parts,
  };
}
