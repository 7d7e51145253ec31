import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { createKnownEvents, type KnownEvents } from "../../../../controller/backends/pod/known-events.ts";
import type { WatchEvent } from "../../../../controller/kubernetes/kubernetes-api.ts";

function anEvent(reason: string, minute: number, message: string, pod = "gitea-task-1") {
  const lastTimestamp = `2026-01-01T00:${String(minute).padStart(2, "0")}:00Z`;
  return { reason, message, lastTimestamp, involvedObject: { kind: "Pod", name: pod, uid: `uid of ${pod}` } };
}

describe("the events of our Pods", () => {
  let tell: (event: WatchEvent) => void;
  let changes: number;
  let events: KnownEvents;

  beforeEach(() => {
    changes = 0;
    events = createKnownEvents(
      {
        onChange: (listener) => {
          tell = listener;
          return () => undefined;
        },
      },
      { isOurs: (name) => name.startsWith("gitea-task-"), onChange: () => void changes++ },
    );
  });

  const happens = (object: unknown, type: WatchEvent["type"] = "ADDED") => tell({ type, object });
  const known = (pod = "gitea-task-1") => events.of(`uid of ${pod}`).map(({ message }) => message);

  it("are the newest of each reason, in the order in which they happened", () => {
    happens(anEvent("FailedMount", 3, "second"));
    happens(anEvent("Scheduled", 1, "on a node"));
    happens(anEvent("FailedMount", 2, "first"));
    happens(anEvent("FailedMount", 3, "second, from another reporter"), "MODIFIED");
    assert.deepEqual(known(), ["on a node", "second, from another reporter"]);
    assert.equal(changes, 3);
  });

  it("are kept by Pod, and those of others not at all", () => {
    happens(anEvent("Pulling", 1, "mine"));
    happens(anEvent("Pulling", 1, "another's", "gitea-task-2"));
    happens(anEvent("Pulling", 1, "a stranger's", "postgres-0"));
    happens({ reason: "Pulling", message: "about nothing" });
    assert.deepEqual(known(), ["mine"]);
    assert.deepEqual(known("gitea-task-2"), ["another's"]);
    assert.deepEqual(known("postgres-0"), []);
    assert.equal(changes, 2);
  });

  it("stay when the API server forgets them after an hour", () => {
    const event = anEvent("FailedMount", 1, "mine");
    happens(event);
    happens(event, "DELETED");
    assert.deepEqual(known(), ["mine"]);
  });

  it("take no more memory however many there are", () => {
    for (let pod = 0; pod < 600; pod++) happens(anEvent("Pulling", 1, "image", `gitea-task-${pod}`));
    assert.deepEqual(known("gitea-task-0"), []);
    assert.deepEqual(known("gitea-task-599"), ["image"]);
    for (let reason = 0; reason < 50; reason++) happens(anEvent(`Reason${reason}`, 1, `${reason}`));
    assert.equal(known().length, 30);
  });
});
