import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { afterEach, beforeEach, describe, it } from "mocha";
import { createWatchedList } from "../../../controller/kubernetes/watched-list.ts";
import { systemRandom } from "../../../controller/platform/backoff.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import type { Document } from "../../fakes/kubernetes/document.ts";
import { eventually } from "../eventually.ts";
import { handsOn, type KubernetesUnderTest, newName, none, readWatch, refusedWith } from "./under-test.ts";

/** What an API server does with lists and watches. */
export function describeCollections(make: () => Promise<KubernetesUnderTest>): void {
  let under: KubernetesUnderTest;
  let hands: ReturnType<typeof handsOn>;
  let label: string;
  beforeEach(async () => {
    under = await make();
    hands = handsOn(under);
    label = newName("label");
  });
  afterEach(() => under[Symbol.asyncDispose]());

  const named = (items: readonly Document[]) => items.map(({ metadata }) => metadata.name);
  const labelled = (value: string) => hands.newPod({ metadata: { labels: { [label]: value } } });
  const watching = async (query: Readonly<Record<string, string>> = {}, stop = none) => {
    const { metadata } = await hands.list(hands.pods, { labelSelector: label });
    const from = { labelSelector: label, resourceVersion: metadata.resourceVersion, ...query };
    return readWatch(under.api.watch(hands.pods, from, stop));
  };

  describe("listing", () => {
    it("shows what the selectors choose", async () => {
      const [one, two] = [await labelled("1"), await labelled("2")];
      const choose = async (query: Readonly<Record<string, string>>) =>
        named((await hands.list(hands.pods, query)).items);
      const both = [one.metadata.name, two.metadata.name].toSorted();
      assert.deepEqual(await choose({ labelSelector: label }), both);
      assert.deepEqual(await choose({ labelSelector: `${label}=1` }), [one.metadata.name]);
      assert.deepEqual(await choose({ labelSelector: `${label}==2` }), [two.metadata.name]);
      assert.deepEqual(await choose({ labelSelector: `${label},${label}!=1` }), [two.metadata.name]);
      assert.deepEqual(await choose({ labelSelector: `${label} in (1,2)` }), both);
      assert.deepEqual(await choose({ labelSelector: `${label},${label} notin (1)` }), [two.metadata.name]);
      assert.deepEqual(await choose({ labelSelector: `!${label},${label}` }), []);
      assert.deepEqual(await choose({ fieldSelector: `metadata.name=${one.metadata.name}` }), [
        one.metadata.name,
      ]);
      const pending = { labelSelector: label, fieldSelector: "status.phase=Running" };
      assert.deepEqual(await choose(pending), []);
      assert.equal(await refusedWith(choose({ fieldSelector: "spec.nonsense=a" })), "400 BadRequest");
    });

    it("gives pages of the collection as it was at the first of them", async () => {
      const pods = [await labelled("1"), await labelled("2"), await labelled("3")];
      const query = { labelSelector: label, limit: "2" };
      const first = await hands.list(hands.pods, query);
      assert.deepEqual([first.kind, first.items.length], ["PodList", 2]);
      const last = pods.map(({ metadata }) => metadata.name).toSorted()[2] ?? "";
      await hands.remove(`${hands.pods}/${last}`);
      const next = await hands.list(hands.pods, { ...query, continue: first.metadata.continue ?? "" });
      assert.deepEqual(named(next.items), [last]);
      assert.equal(next.metadata.continue, undefined);
      assert.equal(next.metadata.resourceVersion, first.metadata.resourceVersion);
      // What they are is said once, for all.
      assert.equal(first.items[0]?.kind, undefined);
      assert.equal((await hands.list(hands.pods, { labelSelector: label })).items.length, 2);
    });

    it("finds the events of an object", async () => {
      const pod = await hands.newPod();
      const { name, uid } = pod.metadata;
      const path = `/api/v1/namespaces/${under.namespace}/events`;
      const involvedObject = { kind: "Pod", namespace: under.namespace, name, uid };
      await hands.create(path, {
        apiVersion: "v1",
        kind: "Event",
        metadata: { name: newName("event") },
        involvedObject,
        reason: "FailedMount",
        message: "a volume is missing",
        type: "Warning",
      });
      for (const selector of [`involvedObject.name=${name}`, `involvedObject.uid=${uid}`]) {
        const { items } = await hands.list(path, { fieldSelector: selector });
        assert.deepEqual(
          items.map((event) => event["reason"]),
          ["FailedMount"],
        );
      }
      const { items } = await hands.list(path, { fieldSelector: "involvedObject.uid=none" });
      assert.deepEqual(items, []);
    });
  });

  describe("watching", () => {
    it("tells each change after the version, and of a deletion the last state", async () => {
      const watch = await watching();
      const pod = await labelled("1");
      const { name } = pod.metadata;
      assert.equal(await watch.nextName(), `ADDED ${name}`);
      await hands.patch(hands.pathOf(pod), { metadata: { annotations: { last: "state" } } });
      const modified = (await watch.next())?.object as Document;
      await hands.remove(hands.pathOf(pod));
      // A Pod is marked first, even one that is gone at once.
      const ending = (await watch.next())?.object as Document;
      assert.equal(ending.metadata.deletionGracePeriodSeconds, 0);
      const deleted = await watch.next();
      const last = deleted?.object as Document;
      assert.deepEqual([deleted?.type, last.metadata.name, last.kind], ["DELETED", name, "Pod"]);
      assert.deepEqual(last.metadata.annotations, { last: "state" });
      assert.ok(Number(last.metadata.resourceVersion) > Number(modified.metadata.resourceVersion));
      await watch.close();
    });

    it("tells what happened before it began, from the version on", async () => {
      const { metadata } = await hands.list(hands.pods, { labelSelector: label });
      const pod = await labelled("1");
      await hands.remove(hands.pathOf(pod));
      const watch = await watching({ resourceVersion: metadata.resourceVersion });
      for (const type of ["ADDED", "MODIFIED", "DELETED"])
        assert.equal(await watch.nextName(), `${type} ${pod.metadata.name}`);
      await watch.close();
    });

    it("tells once that what a finalizer held is gone, with the finalizer still on it", async () => {
      const watch = await watching();
      const held = { labels: { [label]: "1" }, finalizers: ["example.org/held"] };
      const pod = await hands.newPod({ metadata: held });
      await hands.remove(hands.pathOf(pod));
      await hands.patch(hands.pathOf(pod), { metadata: { finalizers: null } });
      for (const type of ["ADDED", "MODIFIED"])
        assert.equal(await watch.nextName(), `${type} ${pod.metadata.name}`);
      const deleted = await watch.next();
      const last = deleted?.object as Document | undefined;
      assert.deepEqual([deleted?.type, last?.metadata.finalizers], ["DELETED", held.finalizers]);
      await watch.close();
    });

    it("tells what is there first where no version is named", async () => {
      const pod = await labelled("1");
      const watch = readWatch(under.api.watch(hands.pods, { labelSelector: label }, none));
      assert.equal(await watch.nextName(), `ADDED ${pod.metadata.name}`);
      await watch.close();
    });

    it("tells what comes into a selection as added, and what leaves it as deleted", async () => {
      const watch = await watching({ labelSelector: `${label}=1` });
      const pod = await labelled("2");
      await hands.patch(hands.pathOf(pod), { metadata: { labels: { [label]: "1" } } });
      assert.equal(await watch.nextName(), `ADDED ${pod.metadata.name}`);
      await hands.patch(hands.pathOf(pod), { metadata: { labels: { [label]: "3" } } });
      assert.equal(await watch.nextName(), `DELETED ${pod.metadata.name}`);
      await watch.close();
    });

    it("sends a bookmark before it ends a watch in time, from where one can watch on", async () => {
      const watch = await watching({ allowWatchBookmarks: "true", timeoutSeconds: "10" });
      const next = watch.next();
      // It does not concern the watch, but without anything new there is nothing to say.
      await hands.newPod();
      await under.pass(10_000);
      const bookmark = await next;
      assert.equal(bookmark?.type, "BOOKMARK");
      const { resourceVersion = "" } = (bookmark.object as Document).metadata;
      for (let more = await watch.next(); more !== undefined; more = await watch.next())
        assert.equal(more.type, "BOOKMARK");
      const pod = await labelled("1");
      const on = await watching({ resourceVersion });
      assert.equal(await on.nextName(), `ADDED ${pod.metadata.name}`);
      await on.close();
    });

    it("says that a version is too old", async () => {
      // Of what the server has known from its beginning the first version is none too old.
      const entries = "/apis/spire.spiffe.io/v1alpha1/clusterstaticentries";
      const watch = readWatch(under.api.watch(entries, { resourceVersion: "1" }, none));
      assert.equal(await refusedWith(watch.next()), "410 Expired");
    });

    it("ends when we go", async () => {
      const stop = new AbortController();
      const watch = await watching({}, stop.signal);
      const next = watch.next();
      stop.abort(new Error("gone"));
      await assert.rejects(next, { message: "gone" });
    });
  });

  it("is kept in memory by a watched list", async () => {
    const there = await labelled("1");
    const list = createWatchedList({
      api: under.api,
      path: hands.pods,
      labelSelector: label,
      clock: systemClock,
      random: systemRandom,
      log: createRecordingLogger(),
    });
    const stop = new AbortController();
    const run = list.run(stop.signal).catch(() => undefined);
    const shows = (...names: readonly string[]) =>
      eventually(
        `it shows ${names.join(" and ")}`,
        () => isDeepStrictEqual(named(list.documents() as Document[]).toSorted(), names.toSorted()),
        50_000,
        20,
      );
    await shows(there.metadata.name);
    const added = await labelled("2");
    await shows(there.metadata.name, added.metadata.name);
    await hands.remove(hands.pathOf(there));
    await shows(added.metadata.name);
    stop.abort();
    await run;
  });
}
