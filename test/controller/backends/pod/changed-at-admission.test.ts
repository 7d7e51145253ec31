import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { BackendError } from "../../../../controller/backends/backend.ts";
import type { PodBackend } from "../../../../controller/backends/pod/pod-backend.ts";
import { settle } from "../../../fakes/fake-clock.ts";
import type { Document } from "../../../fakes/kubernetes/document.ts";
import { anExecutorRequest } from "../../../support/backend-contract.ts";
import { makePodWorld, type PodWorld } from "./pod-world.ts";

const { signal } = new AbortController();
const owner = "ci.ddupan.top/owner";
let world: PodWorld;

beforeEach(async () => {
  world = await makePodWorld();
});
afterEach(() => world[Symbol.asyncDispose]());

/** A backend in a cluster where a webhook changes each Pod before it is stored. */
async function admittedBy(change: (pod: Document) => Document): Promise<PodBackend> {
  const { api } = world.cluster;
  return world.another({
    api: {
      ...api,
      call: (call, abort) =>
        api.call(
          call.method === "POST" && call.path.endsWith("/pods")
            ? { ...call, body: change(call.body as Document) }
            : call,
          abort,
        ),
    },
  });
}

function withMetadata(
  pod: Document,
  field: "labels" | "annotations",
  change: Record<string, string>,
): Document {
  const { metadata } = pod;
  return { ...pod, metadata: { ...metadata, [field]: { ...metadata[field], ...change } } };
}

describe("a Pod that a webhook changes as it is made", () => {
  it("is the executor with labels and containers that were added", async () => {
    const backend = await admittedBy((pod) => {
      const { spec, ...rest } = withMetadata(pod, "labels", { team: "ci" });
      const containers = [{ name: "istio-proxy" }, ...((spec?.["containers"] ?? []) as object[])];
      return { ...rest, spec: { ...spec, containers } };
    });
    const { name } = await backend.create(anExecutorRequest("pod"), signal);
    await settle();
    const { executors } = await backend.list(signal);
    assert.deepEqual(
      executors.map((executor) => executor.name),
      [name],
    );
  });

  for (const [title, change] of [
    [
      "is not known by its owner any more",
      (pod: Document) => withMetadata(pod, "labels", { [owner]: "all" }),
    ],
    [
      "is not the attempt's any more",
      (pod: Document) => withMetadata(pod, "annotations", { "ci.ddupan.top/spiffe-id": "none" }),
    ],
  ] as const)
    it(`is removed again, and is no executor, when it ${title}`, async () => {
      const backend = await admittedBy(change);
      await assert.rejects(backend.create(anExecutorRequest("pod"), signal), (error) => {
        assert.ok(error instanceof BackendError, String(error));
        assert.equal(error.kind, "terminal");
        assert.match(error.message, /^Pod gitea-task-42-1-\w+ was not made as it was asked for: /);
        return true;
      });
      await world.clock.step(60_000);
      assert.deepEqual(world.cluster.all("Pod"), []);
    });
});

describe("the refusal of a Pod", () => {
  it("does not tell the capability that a webhook quotes", async () => {
    const request = anExecutorRequest("pod");
    const { CI_RUNNER_CAPABILITY: capability } = request.environment;
    world.cluster.failNext(
      { verb: "create", resource: "pods" },
      {
        status: 403,
        reason: "Forbidden",
        message: `admission webhook "p" denied the request: env {"value":"${capability}"} is not allowed`,
      },
    );
    await assert.rejects(world.backend.create(request, signal), (error) => {
      assert.ok(error instanceof BackendError);
      assert.match(error.message, /denied the request: env {"value":"\[hidden\]"}/);
      return true;
    });
  });
});
