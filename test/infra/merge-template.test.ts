import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { mergeTemplate } from "../../infra/merge-template.ts";

describe("what a stack wants of a VM's Pod besides", () => {
  const ours = {
    restartPolicy: "Never",
    containers: [{ name: "executor", image: "ours", volumeMounts: [{ name: "work", mountPath: "/work" }] }],
    volumes: [{ name: "work", emptyDir: {} }],
    tolerations: [{ key: "ci" }],
  };

  it("is added by name, as an agent with its socket", () => {
    const agent = { name: "agent", image: "spire-agent" };
    const socket = { name: "socket", emptyDir: {} };
    const mount = { name: "socket", mountPath: "/run/spire/agent-sockets" };
    const merged = mergeTemplate(ours, {
      shareProcessNamespace: true,
      containers: [{ name: "executor", volumeMounts: [mount] }, agent],
      volumes: [socket],
    });
    assert.deepEqual(merged, {
      ...ours,
      shareProcessNamespace: true,
      containers: [
        { ...ours.containers[0], volumeMounts: [{ name: "work", mountPath: "/work" }, mount] },
        agent,
      ],
      volumes: [ours.volumes[0], socket],
    });
  });

  it("replaces values, and lists without names", () => {
    const merged = mergeTemplate(ours, { restartPolicy: "Always", tolerations: [{ key: "other" }] });
    assert.deepEqual(merged, { ...ours, restartPolicy: "Always", tolerations: [{ key: "other" }] });
  });

  it("is nothing unless it is said", () => {
    assert.deepEqual(mergeTemplate(ours, {}), ours);
  });
});
