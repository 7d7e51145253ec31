import assert from "node:assert/strict";
import { describe, it } from "mocha";
import type { WatchEvent } from "../../../controller/kubernetes/kubernetes-api.ts";
import {
  createWatchedList,
  defaultWatchedListTimes,
  type WatchedListOptions,
} from "../../../controller/kubernetes/watched-list.ts";
import { createFakeClock, settle } from "../../fakes/fake-clock.ts";
import { createFakeKubernetes, type FakeKubernetes } from "../../fakes/fake-kubernetes.ts";
import type { Document } from "../../fakes/kubernetes/document.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { settles } from "../../support/settles.ts";

const path = "/api/v1/namespaces/gitea-actions/pods";
const times = defaultWatchedListTimes;

function aPod(name: string, metadata: Partial<Document["metadata"]> = {}): Document {
  return { kind: "Pod", metadata: { name, namespace: "gitea-actions", ...metadata } };
}

/** A list of Pods that runs, beside its cluster; what it tells as `ADDED name`. */
async function start(
  options: Partial<WatchedListOptions> = {},
  prepare: (cluster: FakeKubernetes) => void = () => undefined,
) {
  const clock = createFakeClock();
  const cluster = createFakeKubernetes(clock);
  prepare(cluster);
  const log = createRecordingLogger();
  const steady = () => clock.now();
  const list = createWatchedList({
    api: cluster.api,
    path,
    clock,
    steady,
    random: () => 0,
    log,
    times,
    ...options,
  });
  const events: WatchEvent[] = [];
  list.onChange((event) => events.push(event));
  const stop = new AbortController();
  const ended = list.run(stop.signal).catch((error: unknown) => error);
  await settle();
  const nameOf = ({ object }: WatchEvent) => (object as Document).metadata.name;
  return {
    clock,
    cluster,
    log,
    list,
    object: (index: number) => events[index]?.object as Document | undefined,
    told: () => events.map((event) => `${event.type} ${nameOf(event)}`),
    names: () => list.documents().map((document) => (document as Document).metadata.name),
    stop: async () => {
      stop.abort(new Error("stopped"));
      return await ended;
    },
  };
}

describe("a watched list", () => {
  it("has the whole list, page by page, and then what is told", async () => {
    const there = ["a", "b", "c", "d", "e"];
    const { list, cluster, told, names, stop } = await start({ pageSize: 2 }, (given) => {
      for (const name of there) given.put(aPod(name));
    });
    await settles("the list is there", () => told().length > 0);
    assert.equal(cluster.count({ verb: "list" }), 3);
    assert.deepEqual(
      told(),
      there.map((name) => `ADDED ${name}`),
    );
    cluster.setPod("a", { phase: "Running" });
    cluster.put(aPod("f"));
    cluster.remove("Pod", "b");
    await settle();
    assert.deepEqual(told().slice(5), ["MODIFIED a", "ADDED f", "DELETED b"]);
    assert.deepEqual(names(), ["a", "c", "d", "e", "f"]);
    assert.equal((list.documents()[0] as Document).status?.["phase"], "Running");
    assert.deepEqual(await stop(), new Error("stopped"));
  });

  it("begins its list anew when the snapshot expires in the middle", async () => {
    const { cluster, clock, names, stop } = await start({ pageSize: 1 }, (given) => {
      for (const name of ["a", "b", "c"]) given.put(aPod(name));
      given.failNext({ verb: "list" }, "hang up");
    });
    const firstPage = cluster.holdNext({ verb: "list" }, "after");
    await clock.step(times.retry.firstMs);
    await firstPage.arrived;
    cluster.put(aPod("d"));
    cluster.compact();
    firstPage.release();
    await settles("the list is there", () => names().length > 0);
    assert.deepEqual(names(), ["a", "b", "c", "d"]);
    await stop();
  });

  it("asks for its selectors in lists and watches", async () => {
    const { cluster, told, stop } = await start(
      { labelSelector: "owner=me", fieldSelector: "metadata.name!=b" },
      (given) => {
        given.put(aPod("a", { labels: { owner: "me" } }));
        given.put(aPod("b", { labels: { owner: "me" } }));
        given.put(aPod("c", { labels: { owner: "other" } }));
      },
    );
    cluster.put(aPod("d", { labels: { owner: "other" } }));
    cluster.put(aPod("e", { labels: { owner: "me" } }));
    await settle();
    assert.deepEqual(told(), ["ADDED a", "ADDED e"]);
    await stop();
  });

  it("keeps and tells what `keep` leaves of an object", async () => {
    const { list, object, stop } = await start({ keep: (pod) => (pod as Document).metadata.name }, (given) =>
      given.put(aPod("a")),
    );
    assert.deepEqual([list.documents(), object(0)], [["a"], "a"]);
    await stop();
  });

  it("loses nothing that happens between the list and the watch", async () => {
    const { cluster, clock, told, stop } = await start({}, (given) => {
      given.put(aPod("a"));
      given.failNext({ verb: "watch" }, "hang up");
    });
    cluster.put(aPod("b"));
    cluster.remove("Pod", "a");
    assert.deepEqual(told(), ["ADDED a"]);
    await clock.step(times.retry.firstMs);
    assert.deepEqual(told(), ["ADDED a", "ADDED b", "DELETED a"]);
    assert.equal(cluster.count({ verb: "list" }), 1);
    await stop();
  });

  it("watches on from what it saw last when the server ends a watch, without a list", async () => {
    const { cluster, clock, told, stop } = await start({ times: { ...times, relistMs: Infinity } });
    cluster.put(aPod("a"));
    for (let minutes = 0; minutes < 5; minutes++) {
      await clock.step(60_000);
      cluster.sendBookmarks();
    }
    cluster.put(aPod("b"));
    await settle();
    assert.deepEqual(told(), ["ADDED a", "ADDED b"]);
    assert.deepEqual([cluster.count({ verb: "list" }), cluster.count({ verb: "watch" })], [1, 2]);
    await stop();
  });

  it("asks the server to end watches at times that differ", async () => {
    const wanted: (string | undefined)[] = [];
    for (const random of [0, 0.5, 0.999]) {
      const clock = createFakeClock();
      const { api } = createFakeKubernetes(clock);
      const list = createWatchedList({
        api: {
          call: (call, signal) => api.call(call, signal),
          watch: (watched, query, signal) => {
            wanted.push(query["timeoutSeconds"]);
            return api.watch(watched, query, signal);
          },
        },
        path,
        clock,
        steady: () => clock.now(),
        random: () => random,
        log: createRecordingLogger(),
      });
      const stop = new AbortController();
      const ended = list.run(stop.signal).catch(() => undefined);
      await settle();
      stop.abort();
      await ended;
    }
    assert.deepEqual(wanted, ["300", "450", "600"]);
  });

  it("takes up a bookmark, so that it need not list when older versions are gone", async () => {
    const { cluster, clock, told, stop } = await start();
    cluster.sendBookmarks();
    await settle();
    cluster.compact();
    cluster.watches.end();
    await clock.step(times.retry.firstMs);
    cluster.put(aPod("a"));
    await settle();
    assert.deepEqual(told(), ["ADDED a"]);
    assert.equal(cluster.count({ verb: "list" }), 1);
    await stop();
  });

  it("lists at once when the version it watches from is gone, and tells what vanished with its last state", async () => {
    const { cluster, clock, told, object, stop } = await start({}, (given) => {
      given.put(aPod("a"));
      given.put(aPod("b"));
      given.put(aPod("c"));
    });
    cluster.setPod("a", { phase: "Running" });
    await settle();
    cluster.watches.cut();
    cluster.remove("Pod", "a");
    cluster.setPod("b", { phase: "Failed" });
    cluster.put(aPod("d"));
    cluster.compact();
    await clock.step(times.retry.firstMs);
    assert.deepEqual(told().slice(4), ["DELETED a", "MODIFIED b", "ADDED d"]);
    assert.equal(object(4)?.status?.["phase"], "Running");
    assert.equal(cluster.count({ verb: "list" }), 2);
    await stop();
  });

  it("does not list in a loop when the server always says that the version is gone", async () => {
    const { cluster, clock, stop } = await start({}, (given) =>
      given.failNext({ verb: "watch" }, { status: 410, reason: "Expired" }, Infinity),
    );
    await clock.step(60_000);
    assert.ok(cluster.count({ verb: "list" }) < 16, `${cluster.count({ verb: "list" })} lists in a minute`);
    await stop();
  });

  it("tells the end of an object whose name another one has now", async () => {
    const { cluster, clock, told, object, stop } = await start({}, (given) => given.put(aPod("a")));
    cluster.watches.cut();
    cluster.remove("Pod", "a");
    cluster.put(aPod("a"));
    cluster.compact();
    await clock.step(times.retry.firstMs);
    assert.deepEqual(told(), ["ADDED a", "DELETED a", "ADDED a"]);
    assert.equal(object(1)?.metadata.uid, object(0)?.metadata.uid);
    await stop();
  });

  it("keeps its view while lists fail, and believes an empty list after that", async () => {
    const { cluster, clock, list, told, names, stop, log } = await start({}, (given) => given.put(aPod("a")));
    cluster.setAway(true);
    cluster.remove("Pod", "a");
    cluster.compact();
    await clock.step(600_000);
    assert.deepEqual(names(), ["a"]);
    assert.ok((list.ageMs() ?? 0) >= 600_000);
    cluster.setAway(false);
    await clock.step(times.retry.maxMs);
    assert.deepEqual([told(), names()], [["ADDED a", "DELETED a"], []]);
    assert.ok((list.ageMs() ?? Infinity) <= times.retry.maxMs);
    assert.ok(log.lines.some(({ message }) => message === "a watched list is current again"));
    await stop();
  });

  it("tries again less and less often, and no sooner than the server asks", async () => {
    const { cluster, clock, list, stop } = await start({}, (given) => {
      given.failNext({ verb: "list" }, { status: 503 }, 3);
      given.failNext({ verb: "list" }, { status: 429, reason: "TooManyRequests", retryAfterSeconds: 40 });
    });
    for (const pause of [500, 1_000, 2_000, 40_000]) {
      const before = cluster.count({ verb: "list" });
      await clock.step(pause - 1);
      assert.equal(cluster.count({ verb: "list" }), before, `before ${pause}`);
      await clock.step(1);
      assert.equal(cluster.count({ verb: "list" }), before + 1, `after ${pause}`);
    }
    await settles("the list is there", () => list.ageMs() !== undefined);
    await stop();
  });

  it("does not spin when every watch ends at once", async () => {
    const { cluster, clock, stop } = await start();
    const before = cluster.count({ verb: "watch" });
    cluster.failNext({ verb: "watch" }, "hang up", Infinity);
    cluster.watches.end();
    await clock.step(60_000);
    assert.ok(cluster.count({ verb: "watch" }) - before < 15);
    assert.equal(cluster.count({ verb: "list" }), 1);
    await stop();
  });

  it("lists when a watch says nothing, not even bookmarks, and watches on another connection", async () => {
    const { cluster, clock, list, told, stop } = await start();
    await clock.step(times.silentMs - 1);
    cluster.sendBookmarks();
    cluster.watches.silence();
    cluster.put(aPod("a"));
    await clock.step(times.silentMs - 1);
    assert.deepEqual(told(), []);
    await clock.step(1);
    assert.deepEqual([told(), list.ageMs()], [["ADDED a"], 0]);
    cluster.put(aPod("b"));
    await settle();
    assert.deepEqual(told(), ["ADDED a", "ADDED b"]);
    assert.equal(cluster.count({ verb: "list" }), 2);
    await stop();
  });

  it("lists again every so often, and goes on watching if that fails", async () => {
    const { cluster, clock, told, stop } = await start();
    const untilNextList = async () => {
      for (let ms = 0; ms < times.relistMs; ms += 60_000) {
        await clock.step(60_000);
        cluster.sendBookmarks();
        await settle();
      }
    };
    cluster.failNext({ verb: "list" }, { status: 503 });
    await untilNextList();
    assert.equal(cluster.count({ verb: "list" }), 2);
    cluster.put(aPod("a"));
    await settle();
    assert.deepEqual(told(), ["ADDED a"]);
    await untilNextList();
    assert.equal(cluster.count({ verb: "list" }), 3);
    await stop();
  });

  it("knows how old its view is", async () => {
    const { cluster, clock, list, stop } = await start({}, (given) => {
      given.failNext({ verb: "list" }, { status: 503 });
    });
    assert.equal(list.ageMs(), undefined);
    await clock.step(times.retry.firstMs);
    assert.equal(list.ageMs(), 0);
    await clock.step(1_000);
    assert.equal(list.ageMs(), 1_000);
    cluster.sendBookmarks();
    await settles("a bookmark is taken up", () => list.ageMs() === 0);
    await clock.step(2_000);
    cluster.put(aPod("a"));
    await settles("an event is taken up", () => list.ageMs() === 0);
    await stop();
  });

  it("goes on when a listener throws, and tells none that has left", async () => {
    const { cluster, list, told, log, stop } = await start();
    list.onChange(() => {
      throw new Error("a broken listener");
    });
    const left: WatchEvent[] = [];
    list.onChange((event) => left.push(event))();
    cluster.put(aPod("a"));
    await settle();
    assert.deepEqual([told(), left], [["ADDED a"], []]);
    assert.ok(log.text().includes("a broken listener"));
    await stop();
  });

  it("waits for the rights and the API that it lacks", async () => {
    const { cluster, clock, list, log, stop } = await start({}, (given) => given.deny({ verb: "list" }));
    await clock.step(60_000);
    assert.ok(log.text().includes("cannot list resource"));
    cluster.allowAll();
    await clock.step(times.retry.maxMs);
    await settles("the list is there", () => list.ageMs() !== undefined);
    await stop();
  });
});
