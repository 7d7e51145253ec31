import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { handsOn, type KubernetesUnderTest, newName, refusedWith } from "./under-test.ts";

/** What an API server does with objects that are created, read, changed and removed. */
export function describeObjects(make: () => Promise<KubernetesUnderTest>): void {
  let under: KubernetesUnderTest;
  let hands: ReturnType<typeof handsOn>;
  beforeEach(async () => {
    under = await make();
    hands = handsOn(under);
  });
  afterEach(() => under[Symbol.asyncDispose]());

  describe("creating and reading", () => {
    it("completes a new object and gives it back as it is read", async () => {
      const pod = await hands.newPod({ metadata: { labels: { a: "b" } } });
      const { uid, resourceVersion, creationTimestamp, namespace, labels } = pod.metadata;
      assert.match(uid ?? "", /^[0-9a-f-]{36}$/);
      assert.match(resourceVersion ?? "", /^\d+$/);
      assert.ok(!Number.isNaN(Date.parse(creationTimestamp ?? "")));
      assert.deepEqual([namespace, labels, pod.status?.["phase"]], [under.namespace, { a: "b" }, "Pending"]);
      assert.deepEqual([pod.apiVersion, pod.kind], ["v1", "Pod"]);
      assert.deepEqual(await hands.get(hands.pathOf(pod)), pod);
    });

    it("refuses a name that is there, whatever else is in the object", async () => {
      const { metadata } = await hands.newPod();
      const again = hands.newPod({ metadata: { name: metadata.name, labels: { other: "x" } } });
      assert.equal(await refusedWith(again), "409 AlreadyExists");
    });

    it("refuses what is not there, what has no name and where there is no namespace", async () => {
      assert.equal(await refusedWith(hands.get(`${hands.pods}/absent`)), "404 NotFound");
      assert.equal(await refusedWith(hands.get("/apis/example.org/v1/things/a")), "404");
      const pod = await hands.newPod();
      const { name: _, ...unnamed } = pod.metadata;
      const body = { apiVersion: "v1", kind: "Pod", metadata: { labels: unnamed.labels }, spec: pod.spec };
      assert.equal(await refusedWith(hands.create(hands.pods, body)), "422 Invalid");
      const elsewhere = { ...body, metadata: { name: "a" } };
      const absent = "/api/v1/namespaces/absent-namespace/pods";
      assert.equal(await refusedWith(hands.create(absent, elsewhere)), "404 NotFound");
      assert.equal((await hands.list(absent)).items.length, 0);
    });
  });

  describe("changing", () => {
    it("replaces the version that is named, and no other", async () => {
      const pod = await hands.newPod();
      const first = await hands.replace(hands.pathOf(pod), {
        ...pod,
        metadata: { ...pod.metadata, labels: { a: "1" } },
      });
      assert.notEqual(first.metadata.resourceVersion, pod.metadata.resourceVersion);
      const stale = { ...pod, metadata: { ...pod.metadata, labels: { a: "2" } } };
      assert.equal(await refusedWith(hands.replace(hands.pathOf(pod), stale)), "409 Conflict");
      const other = {
        ...first,
        metadata: { ...first.metadata, uid: "9d5e0f0c-0000-4000-8000-000000000000" },
      };
      assert.equal(await refusedWith(hands.replace(hands.pathOf(pod), other)), "409 Conflict");
      const absent = { ...pod, metadata: { ...pod.metadata, name: "absent" } };
      assert.equal(await refusedWith(hands.replace(`${hands.pods}/absent`, absent)), "404 NotFound");
    });

    it("merges patches, and null takes away", async () => {
      const pod = await hands.newPod({ metadata: { labels: { a: "1", b: "2" } } });
      for (const kind of ["merge-patch", "strategic-merge-patch"]) {
        const body = { metadata: { labels: { a: null, [kind]: "x" } } };
        const patched = await hands.patch(hands.pathOf(pod), body, kind);
        assert.deepEqual([patched.metadata.labels?.["a"], patched.metadata.labels?.["b"]], [undefined, "2"]);
        assert.equal(patched.metadata.labels?.[kind], "x");
      }
    });

    it("patches only the object that is meant", async () => {
      const pod = await hands.newPod();
      const path = hands.pathOf(pod);
      const { uid, resourceVersion } = pod.metadata;
      const patched = await hands.patch(path, { metadata: { uid, resourceVersion, labels: { a: "1" } } });
      assert.equal(patched.metadata.labels?.["a"], "1");
      const stale = hands.patch(path, { metadata: { resourceVersion, labels: { a: "2" } } });
      assert.equal(await refusedWith(stale), "409 Conflict");
      // Not a conflict, as with a replacement.
      const other = { uid: "9d5e0f0c-0000-4000-8000-000000000000", labels: { a: "2" } };
      assert.equal(await refusedWith(hands.patch(path, { metadata: other })), "422 Invalid");
      const both = { ...other, resourceVersion };
      assert.equal(await refusedWith(hands.patch(path, { metadata: both })), "409 Conflict");
      assert.equal(await refusedWith(hands.patch(`${hands.pods}/absent`, { metadata: {} })), "404 NotFound");
    });

    it("writes no version for a change that changes nothing", async () => {
      const pod = await hands.newPod({ metadata: { labels: { a: "1" } } });
      const patched = await hands.patch(hands.pathOf(pod), { metadata: { labels: { a: "1" } } });
      assert.equal(patched.metadata.resourceVersion, pod.metadata.resourceVersion);
    });

    it("leaves a Pod's status to its subresource, and its spec as it is", async () => {
      const pod = await hands.newPod();
      const path = hands.pathOf(pod);
      const beside = await hands.patch(path, {
        status: { phase: "Running" },
        metadata: { labels: { a: "1" } },
      });
      assert.deepEqual([beside.status?.["phase"], beside.metadata.labels], ["Pending", { a: "1" }]);
      const running = await hands.patch(`${path}/status`, { status: { phase: "Running" } });
      assert.equal(running.status?.["phase"], "Running");
      assert.equal(await refusedWith(hands.patch(path, { spec: { hostname: "other" } })), "422 Invalid");
    });

    it("takes some kinds of patches only", async () => {
      const pod = await hands.newPod();
      const refused = await refusedWith(hands.patch(hands.pathOf(pod), {}, "unknown-patch"));
      assert.equal(refused, "415 UnsupportedMediaType");
    });
  });

  describe("removing", () => {
    it("lets a Pod be gone at once that no node has, and shows it once more", async () => {
      const pod = await hands.newPod();
      const removed = await hands.remove(hands.pathOf(pod));
      assert.equal(removed.metadata.uid, pod.metadata.uid);
      assert.equal(await refusedWith(hands.get(hands.pathOf(pod))), "404 NotFound");
      assert.equal(await refusedWith(hands.remove(hands.pathOf(pod))), "404 NotFound");
    });

    it("removes only the one that is meant", async () => {
      const pod = await hands.newPod();
      const uid = "9d5e0f0c-0000-4000-8000-000000000000";
      const wrong = hands.remove(hands.pathOf(pod), { preconditions: { uid } });
      assert.equal(await refusedWith(wrong), "409 Conflict");
      const resourceVersion = "1";
      const stale = hands.remove(hands.pathOf(pod), { preconditions: { resourceVersion } });
      assert.equal(await refusedWith(stale), "409 Conflict");
      await hands.remove(hands.pathOf(pod), { preconditions: { uid: pod.metadata.uid } });
      assert.equal(await refusedWith(hands.get(hands.pathOf(pod))), "404 NotFound");
    });

    it("keeps a Pod that a node has until its grace is over, which may be shortened", async () => {
      const spec = { nodeName: "nowhere", terminationGracePeriodSeconds: 120 };
      const pod = await hands.newPod({ spec });
      const path = hands.pathOf(pod);
      const ending = await hands.remove(path);
      assert.equal(ending.metadata.deletionGracePeriodSeconds, 120);
      assert.ok(Date.parse(ending.metadata.deletionTimestamp ?? "") > 0);
      assert.notEqual(ending.metadata.resourceVersion, pod.metadata.resourceVersion);
      const again = await hands.remove(path, { gracePeriodSeconds: 600 });
      assert.equal(again.metadata.deletionGracePeriodSeconds, 120);
      const sooner = await hands.remove(path, { gracePeriodSeconds: 60 });
      assert.equal(sooner.metadata.deletionGracePeriodSeconds, 60);
      const patched = await hands.patch(path, { metadata: { labels: { a: "1" } } });
      assert.ok(patched.metadata.deletionTimestamp !== undefined);
      await hands.remove(path, { gracePeriodSeconds: 0 });
      assert.equal(await refusedWith(hands.get(path)), "404 NotFound");
    });

    it("lets a Pod be gone at once that has ended, though a node has it", async () => {
      const pod = await hands.newPod({ spec: { nodeName: "nowhere" } });
      await hands.patch(`${hands.pathOf(pod)}/status`, { status: { phase: "Failed" } });
      await hands.remove(hands.pathOf(pod));
      assert.equal(await refusedWith(hands.get(hands.pathOf(pod))), "404 NotFound");
    });

    it("keeps what has a finalizer until that is taken away", async () => {
      const pod = await hands.newPod({ metadata: { finalizers: ["example.org/held"] } });
      const path = hands.pathOf(pod);
      const ending = await hands.remove(path);
      assert.ok(ending.metadata.deletionTimestamp !== undefined);
      await hands.remove(path, { gracePeriodSeconds: 0 });
      assert.equal((await hands.get(path)).metadata.uid, pod.metadata.uid);
      const free = await hands.patch(path, { metadata: { finalizers: null } });
      assert.equal(free.metadata.uid, pod.metadata.uid);
      assert.equal(await refusedWith(hands.get(path)), "404 NotFound");
    });
  });

  describe("objects of an extension", () => {
    const entries = "/apis/spire.spiffe.io/v1alpha1/clusterstaticentries";
    const anEntry = (labels: object = {}) => ({
      apiVersion: "spire.spiffe.io/v1alpha1",
      kind: "ClusterStaticEntry",
      metadata: { name: newName("entry"), labels },
      spec: {
        spiffeID: "spiffe://example.org/contract",
        parentID: "spiffe://example.org/agent",
        selectors: ["unix:uid:1"],
        className: "nobody",
      },
    });

    it("are kept for the whole cluster, and say what they are in lists too", async () => {
      const label = newName("label");
      const made = await hands.create(entries, anEntry({ [label]: "x" }));
      const { items } = await hands.list(entries, { labelSelector: label });
      assert.deepEqual(
        items.map(({ kind, metadata }) => [kind, metadata.uid]),
        [["ClusterStaticEntry", made.metadata.uid]],
      );
      const path = `${entries}/${made.metadata.name}`;
      const removed = await hands.remove(path, { preconditions: { uid: made.metadata.uid } });
      assert.deepEqual([removed.kind, removed.status as unknown], ["Status", "Success"]);
      assert.equal(await refusedWith(hands.get(path)), "404 NotFound");
    });

    it("take no strategic merge patch, and no replacement without a version", async () => {
      const entry = anEntry();
      const path = `${entries}/${entry.metadata.name}`;
      await hands.create(entries, entry);
      const patch = hands.patch(path, { metadata: {} }, "strategic-merge-patch");
      assert.equal(await refusedWith(patch), "415 UnsupportedMediaType");
      assert.equal(await refusedWith(hands.replace(path, entry)), "422 Invalid");
      await hands.remove(path);
    });
  });
}
