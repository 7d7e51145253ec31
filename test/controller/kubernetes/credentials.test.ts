import assert from "node:assert/strict";
import { describe, it } from "mocha";
import {
  ClusterConfigError,
  createCredentials,
  type Credential,
} from "../../../controller/kubernetes/cluster.ts";
import { createHttpsApi } from "../../../controller/kubernetes/https-api.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { startServedCluster } from "../../support/served-cluster.ts";

const { signal } = new AbortController();
const minuteMs = 60_000;

function start() {
  const clock = createFakeClock();
  let loads = 0;
  let failure: Error | undefined;
  const anew: boolean[] = [];
  const credentials = createCredentials(
    {
      load: async (again): Promise<Credential> => {
        anew.push(again);
        loads++;
        if (failure !== undefined) throw failure;
        return await Promise.resolve({ headers: { Authorization: `Bearer ${loads}` } });
      },
    },
    clock,
  );
  return {
    clock,
    credentials,
    anew,
    current: async () => (await credentials.current(signal)).headers["Authorization"],
    fail: (error?: Error) => {
      failure = error;
    },
  };
}

describe("a credential", () => {
  it("is read anew once a minute, and once for all who ask", async () => {
    const { clock, current } = start();
    assert.deepEqual(await Promise.all([current(), current()]), ["Bearer 1", "Bearer 1"]);
    await clock.step(minuteMs - 1);
    assert.equal(await current(), "Bearer 1");
    await clock.step(1);
    assert.equal(await current(), "Bearer 2");
  });

  it("is read anew when the server has refused it, and nothing that was kept counts", async () => {
    const { credentials, current, anew } = start();
    const first = await credentials.current(signal);
    credentials.refused(first);
    assert.equal(await current(), "Bearer 2");
    credentials.refused(first);
    assert.equal(await current(), "Bearer 2");
    assert.deepEqual(anew, [false, true]);
  });

  it("goes on to count if it cannot be read anew, until the server refuses it", async () => {
    const { clock, credentials, current, fail, anew } = start();
    const first = await credentials.current(signal);
    fail(new ClusterConfigError("token cannot be read"));
    await clock.step(minuteMs);
    assert.equal(await current(), "Bearer 1");
    assert.equal(await current(), "Bearer 1");
    assert.equal(anew.length, 2);
    credentials.refused(first);
    await assert.rejects(current(), /token cannot be read/);
    fail();
    assert.equal(await current(), "Bearer 4");
  });

  it("does not count for longer because the clock was set back", async () => {
    const { clock, current } = start();
    await current();
    const ahead = createFakeClock(clock.now() - 3_600_000);
    Object.assign(clock, { now: () => ahead.now() });
    assert.equal(await current(), "Bearer 2");
  });

  it("that was replaced is found within a call: one 401, and the call is made again", async () => {
    await using served = await startServedCluster();
    const { server } = served;
    let token = "first";
    server.tokens.add("first");
    const load = () => Promise.resolve({ headers: { Authorization: `Bearer ${token}` }, ca: server.ca });
    const api = createHttpsApi({ cluster: { server: new URL(server.url), load }, clock: systemClock });
    const call = () => api.call({ method: "GET", path: "/api/v1/nodes" }, signal);
    try {
      await call();
      server.tokens.delete("first");
      server.tokens.add("second");
      token = "second";
      await call();
      assert.deepEqual(
        server.requests.map(({ headers }) => headers["authorization"]),
        ["Bearer first", "Bearer first", "Bearer second"],
      );
      server.tokens.clear();
      await assert.rejects(call(), { name: "ApiRefusal", status: 401, reason: "Unauthorized" });
      assert.equal(server.requests.length, 5);
    } finally {
      api.close();
    }
  });
});
