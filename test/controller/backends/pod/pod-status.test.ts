import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { maxEvidence } from "../../../../controller/assignment/evidence.ts";
import { parsePod } from "../../../../controller/backends/pod/pod-document.ts";
import { parsePodEvents } from "../../../../controller/backends/pod/pod-event.ts";
import { readGonePod, readPod, type PodReading } from "../../../../controller/backends/pod/pod-status.ts";
import { aPod, executorStatus, podFixture, podFixtures, rawPod } from "../../../support/pod-fixtures.ts";

/** What each document says: state, cause, how patient we are with it, and what its evidence is. */
const wanted: Readonly<Record<string, string>> = {
  Completed: "ended: exit code 0",
  "ContainerCreating-hostpath-missing":
    'grace config_error: FailedMount: MountVolume.SetUp failed for volume "v" : hostPath type check failed, /nope/nope is not a directory, unable to determine its type: path "/nope/nope" does not exist',
  "ContainerCreating-missing-secret-volume":
    'grace config_error: FailedMount: MountVolume.SetUp failed for volume "v" : secret "absent" not found',
  "ContainerCreating-pull-hangs": 'wait image_pull_slow: Pulling: Pulling image "10.251.0.1:5000/hang:1"',
  CrashLoopBackOff:
    "wait start_failed: CrashLoopBackOff: back-off 20s restarting failed container=executor pod=crash_default(43ef35c1-5dd0-400f-9674-3bbaf7744f9a)",
  "CreateContainerConfigError-configmap":
    'grace config_error: CreateContainerConfigError: configmap "absent" not found',
  "CreateContainerConfigError-nonroot":
    'grace config_error: CreateContainerConfigError: container has runAsNonRoot and image will run as root (pod: "nonroot_default(f6dbd39a-d49f-4b6f-96de-c05dff2e48b0)", container: executor)',
  "CreateContainerConfigError-secret":
    'grace config_error: CreateContainerConfigError: secret "absent" not found',
  "CreateContainerError-nocmd":
    'grace image_invalid: CreateContainerError: failed to generate container "[hidden]" spec: failed to generate spec: no command specified',
  "CreateContainerError-nouser":
    "grace image_invalid: CreateContainerError: failed to create containerd container: mount callback failed on /var/lib/containerd/tmpmounts/containerd-mount663608991: open /var/lib/containerd/tmpmounts/containerd-mount663608991/etc/passwd: no such file or directory",
  DeadlineExceeded:
    "ended deadline: DeadlineExceeded: Pod was active on the node longer than the specified deadline",
  "Deleted-gracefully": "ended killed: its Pod was deleted: exit code 143 (SIGTERM)",
  ErrImageNeverPull:
    'permanent image_missing: ErrImageNeverPull: Container image "images.example/absent:1" is not present with pull policy of Never',
  "ErrImagePull-401":
    'grace image_pull_refused: ErrImagePull: failed to pull and unpack image "10.251.0.1:5000/denied:1": failed to resolve reference "10.251.0.1:5000/denied:1": pulling from host 10.251.0.1:5000 failed with status code [manifests 1]: 401 Unauthorized',
  "ErrImagePull-403":
    'grace image_pull_refused: ErrImagePull: failed to pull and unpack image "10.251.0.1:5000/forbid:1": failed to resolve reference "10.251.0.1:5000/forbid:1": pulling from host 10.251.0.1:5000 failed with status code [manifests 1]: 403 Forbidden',
  "ErrImagePull-404":
    'grace image_missing: ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "10.251.0.1:5000/none:1": failed to resolve reference "10.251.0.1:5000/none:1": 10.251.0.1:5000/none:1: not found',
  "ErrImagePull-500":
    'wait registry_down: ErrImagePull: failed to pull and unpack image "10.251.0.1:5000/broken:1": failed to resolve reference "10.251.0.1:5000/broken:1": pulling from host 10.251.0.1:5000 failed with status code [manifests 1]: 500 Internal Server Error',
  "ErrImagePull-dns":
    'wait registry_down: ErrImagePull: failed to pull and unpack image "registry.invalid/none:1": failed to resolve reference "registry.invalid/none:1": failed to do request: Head "https://registry.invalid/v2/none/manifests/1": dial tcp: lookup registry.invalid on 127.0.0.1:53: read udp 127.0.0.1:44915->127.0.0.1:53: read: connection refused',
  "ErrImagePull-refused":
    'wait registry_down: ErrImagePull: failed to pull and unpack image "10.251.0.1:5009/none:1": failed to resolve reference "10.251.0.1:5009/none:1": failed to do request: Head "https://10.251.0.1:5009/v2/none/manifests/1": dial tcp 10.251.0.1:5009: connect: connection refused',
  "Error-exit3": "ended: exit code 3: bye",
  "Error-sigkill-self": "ended killed: exit code 137 (SIGKILL)",
  "Evicted-by-API": "ended evicted: EvictionByEvictionAPI: Eviction API: evicting",
  "Evicted-ephemeral-storage":
    "ended evicted: Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 10Mi.",
  "Evicted-memory-pressure":
    "ended evicted: Evicted: The node was low on resource: memory. Threshold quantity: 24000Mi, available: 15753400Ki.",
  "ImagePullBackOff-404":
    'grace image_missing: ImagePullBackOff: Back-off pulling image "10.251.0.1:5000/none:1": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "10.251.0.1:5000/none:1": failed to resolve reference "10.251.0.1:5000/none:1": 10.251.0.1:5000/none:1: not found',
  "ImagePullBackOff-dns":
    'wait registry_down: ImagePullBackOff: Back-off pulling image "registry.invalid/none:1": ErrImagePull: failed to pull and unpack image "registry.invalid/none:1": failed to resolve reference "registry.invalid/none:1": failed to do request: Head "https://registry.invalid/v2/none/manifests/1": dial tcp: lookup registry.invalid on 127.0.0.1:53: read udp 127.0.0.1:44915->127.0.0.1:53: read: connection refused',
  InvalidImageName:
    'permanent image_invalid: InvalidImageName: Failed to apply default image tag "Invalid//UPPER:!!": couldn\'t parse image name "Invalid//UPPER:!!": invalid reference format: repository name (/UPPER) must be lowercase',
  NodeAffinity:
    "ended node_rejected: NodeAffinity: Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
  "NodeLost-kubelet-back":
    "ended node_lost: DeletionByTaintManager: Taint manager: deleting due to NoExecute taint",
  "NodeLost-unreachable": "running",
  OOMKilled: "ended oom: OOMKilled, memory limit 64Mi: exit code 137 (SIGKILL)",
  OutOfcpu:
    "ended node_rejected: OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu, requested: 1000000, used: 0, capacity: 2000",
  "Rejected-under-memory-pressure":
    "wait unschedulable: Unschedulable: 0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
  "StartError-mount-over-file":
    'ended config_error: StartError: error during container init: error mounting "/var/lib/kubelet/pods/a0dc89cb-a06a-491e-a3bd-917977054526/volumes/kubernetes.io~empty-dir/d" to rootfs at "/etc/passwd": mount /var/lib/kubelet/pods/a0dc89cb-a06a-491e-a3bd-917977054526/volumes/kubernetes.io~empty-dir/d:/etc/passwd (via /proc/self/fd/6), flags: 0x5000: not a directory: unknown',
  Unschedulable:
    "wait unschedulable: Unschedulable: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
  "Unschedulable-selector":
    "wait unschedulable: Unschedulable: 0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s). preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
};

function told(reading: PodReading): string {
  switch (reading.phase) {
    case "starting": {
      if (reading.obstacle === undefined) return "starting";
      const { failure, patience } = reading.obstacle;
      return `${patience.kind} ${failure.reason}: ${failure.evidence}`;
    }
    case "running":
      return "running";
    case "ended":
      return `ended${reading.cause === undefined ? "" : ` ${reading.cause}`}: ${reading.reason}`;
    default:
      return reading satisfies never;
  }
}

const read = (...[pod, events = []]: [Parameters<typeof readPod>[0], Parameters<typeof readPod>[1]?]) =>
  told(readPod(pod, events));
const event = (reason: string, message: string) => ({ reason, message });
const creating = { containerStatuses: executorStatus({ waiting: { reason: "ContainerCreating" } }) };
const ended = (terminated: Record<string, unknown>) => ({
  containerStatuses: executorStatus({ terminated }),
});
const disrupted = (reason: string, message: string) => ({
  conditions: [{ type: "DisruptionTarget", status: "True", reason, message }],
});

describe("the state of an executor, read from its Pod", () => {
  it("is known for every Pod that a kubelet has left", () => {
    assert.deepEqual(Object.keys(wanted).toSorted(), podFixtures.toSorted());
  });

  for (const name of podFixtures)
    it(`is that of ${name}`, () => {
      const { pod, events } = podFixture(name);
      assert.equal(read(pod, events), wanted[name]);
    });

  describe("while it starts", () => {
    it("is starting without a reason when nothing is wrong", () => {
      assert.equal(read(aPod({}, { spec: { nodeName: undefined } })), "starting");
      assert.equal(read(aPod(creating), [event("Scheduled", "Successfully assigned")]), "starting");
    });

    const pull = 'failed to pull and unpack image "r.example/unauthorized/not found:1": ';
    for (const [message, cause] of [
      [
        `${pull}pull access denied, repository does not exist or may require authorization`,
        "grace image_pull_refused",
      ],
      [
        `${pull}unexpected status from HEAD request to https://r.example/v2/: 403 Forbidden`,
        "grace image_pull_refused",
      ],
      [`${pull}no match for platform in manifest: not found`, "grace image_invalid"],
      ["manifest for r.example/x:1 not found: manifest unknown", "grace image_missing"],
      [`${pull}failed with status code [manifests 1]: 429 Too Many Requests`, "wait registry_down"],
      [`${pull}write /var/lib/containerd/x: no space left on device`, "wait node_rejected"],
      ["pull QPS exceeded", "wait image_pull_slow"],
      ["", "wait registry_down"],
    ] as const)
      it(`takes a pull that fails with ${JSON.stringify(message)} for ${cause}`, () => {
        const pod = aPod({
          containerStatuses: executorStatus({ waiting: { reason: "ErrImagePull", message } }),
        });
        assert.ok(read(pod).startsWith(`${cause}: ErrImagePull`), read(pod));
      });

    it("shows a reason that it has never heard of", () => {
      const waiting = { reason: "PostStartHookError", message: "the hook said no" };
      assert.equal(
        read(aPod({ containerStatuses: executorStatus({ waiting }) })),
        "wait too_slow: PostStartHookError: the hook said no",
      );
    });

    it("is read from the events where only they tell", () => {
      for (const [reason, message, cause] of [
        [
          "FailedMount",
          'MountVolume.SetUp failed for volume "spire-agent-socket" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name csi.spiffe.io not found in the list of registered CSI drivers',
          "wait identity",
        ],
        [
          "FailedMount",
          'MountVolume.SetUp failed for volume "v" : driver name other.example not found in the list of registered CSI drivers',
          "wait too_slow",
        ],
        ["FailedAttachVolume", "Multi-Attach error for volume", "wait too_slow"],
        [
          "FailedCreatePodSandBox",
          'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "kata" is configured',
          "grace config_error",
        ],
        [
          "FailedCreatePodSandBox",
          "Failed to create pod sandbox: runc create failed: can't get final child's PID from pipe: EOF",
          "wait too_slow",
        ],
        ["NetworkNotReady", "network is not ready: container runtime network not ready", "wait too_slow"],
      ] as const)
        assert.equal(read(aPod(creating), [event(reason, message)]), `${cause}: ${reason}: ${message}`);
    });

    it("takes what a kubelet tells of a second for later than what the scheduler told within it", () => {
      const events = parsePodEvents([
        { reason: "Pulling", message: "Pulling image", lastTimestamp: "2026-01-01T00:00:08Z" },
        { reason: "Scheduled", message: "assigned", eventTime: "2026-01-01T00:00:08.090000Z" },
      ]);
      assert.deepEqual(
        events.map(({ reason }) => reason),
        ["Scheduled", "Pulling"],
      );
    });

    it("is what the newest event says, whatever was true before", () => {
      const failedMount = event("FailedMount", 'secret "s" not found');
      const pulling = event("Pulling", 'Pulling image "x"');
      assert.match(read(aPod(creating), [pulling, failedMount]), /^grace config_error/);
      assert.match(read(aPod(creating), [failedMount, pulling]), /^wait image_pull_slow/);
      assert.equal(read(aPod(creating), [pulling, event("Pulled", "Pulled image")]), "starting");
      assert.match(read(aPod(creating), [pulling, event("Unheard", "of")]), /^wait image_pull_slow/);
    });

    it("counts what stands in the Pod before its events", () => {
      const waiting = { reason: "ErrImageNeverPull", message: "absent" };
      const pod = aPod({ containerStatuses: executorStatus({ waiting }) });
      assert.match(read(pod, [event("Pulling", "Pulling image")]), /^permanent image_missing/);
    });

    it("names the init container that holds it up", () => {
      const pod = aPod({
        initContainerStatuses: [
          { name: "first", state: { terminated: { exitCode: 0 } } },
          { name: "second", state: { waiting: { reason: "InvalidImageName", message: "bad" } } },
        ],
        containerStatuses: executorStatus({ waiting: { reason: "PodInitializing" } }),
      });
      assert.equal(read(pod), "permanent image_invalid: init container second: InvalidImageName: bad");
    });

    it("waits for gates of the scheduler as it waits for room", () => {
      const conditions = [
        { type: "PodScheduled", status: "False", reason: "SchedulingGated", message: "gated" },
      ];
      assert.equal(read(aPod({ conditions })), "wait unschedulable: SchedulingGated: gated");
    });

    it("is starting, and on its way out, when its Pod is deleted on a node", () => {
      const metadata = { deletionTimestamp: "2026-01-01T00:00:00Z" };
      assert.equal(read(aPod(creating, { metadata })), "wait deleted_before_claim: its Pod is being deleted");
      assert.equal(
        read(aPod({ ...creating, ...disrupted("EvictionByEvictionAPI", "evicting") }, { metadata })),
        "wait deleted_before_claim: EvictionByEvictionAPI: evicting",
      );
    });
  });

  describe("while it runs", () => {
    const running = { phase: "Running", containerStatuses: executorStatus({ running: {} }) };

    it("is running whatever other containers do, and whatever events told", () => {
      const { containerStatuses } = running;
      const helper = { name: "helper", state: { terminated: { exitCode: 1 } } };
      const pod = aPod({ phase: "Running", containerStatuses: [helper, ...containerStatuses] });
      assert.equal(read(pod, [event("FailedMount", 'secret "s" not found')]), "running");
    });

    it("is running on a node that nobody hears of: the job may well go on", () => {
      const metadata = { deletionTimestamp: "2026-01-01T00:00:00Z" };
      assert.equal(
        read(aPod({ ...running, ...disrupted("DeletionByTaintManager", "x") }, { metadata })),
        "running",
      );
    });

    it("is running when only others are known to run", () => {
      assert.equal(read(aPod({ phase: "Running" })), "running");
    });
  });

  describe("when it has ended", () => {
    it("is ended as soon as the executor's container is, though others run", () => {
      const pod = aPod({
        phase: "Running",
        containerStatuses: [
          { name: "helper", state: { running: {} } },
          ...executorStatus({ terminated: { exitCode: 0, reason: "Completed" } }),
        ],
      });
      assert.equal(read(pod), "ended: exit code 0");
    });

    it("says that it ran out of memory though only a child was killed", () => {
      const pod = aPod({ phase: "Failed", ...ended({ reason: "OOMKilled", exitCode: 7 }) });
      assert.equal(read(pod), "ended oom: OOMKilled: exit code 7");
    });

    it("says so as well when it was deleted after that", () => {
      const pod = aPod(
        { phase: "Failed", ...ended({ reason: "OOMKilled", exitCode: 137 }) },
        { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } },
      );
      assert.equal(read(pod), "ended oom: OOMKilled: exit code 137 (SIGKILL)");
    });

    it("shows the end of its log, from the beginning of a line on", () => {
      const message = `${"noise\n".repeat(300)}fatal: no identity\n`;
      const reading = read(aPod({ phase: "Failed", ...ended({ reason: "Error", exitCode: 1, message }) }));
      assert.match(reading, /^ended: exit code 1: …noise noise .* noise fatal: no identity$/);
    });

    for (const [exitCode, shown] of [
      [135, "ended: exit code 135 (SIGBUS)"],
      [139, "ended: exit code 139 (SIGSEGV)"],
      [137, "ended killed: exit code 137 (SIGKILL)"],
      [143, "ended killed: exit code 143 (SIGTERM)"],
      [undefined, "ended: ended, nobody knows how"],
    ] as const)
      it(`reads exit code ${exitCode} as ${JSON.stringify(shown)}`, () => {
        assert.equal(read(aPod({ phase: "Failed", ...ended({ reason: "Error", exitCode }) })), shown);
      });

    for (const [message, cause] of [
      ['runc create failed: exec: "/nope": stat /nope: no such file or directory: unknown', "image_invalid"],
      ["runc create failed: exec /bin/x: exec format error: unknown", "image_invalid"],
      ["runc create failed: can't get final child's PID from pipe: EOF", "start_failed"],
    ] as const)
      it(`takes a start that failed with ${JSON.stringify(message)} for ${cause}`, () => {
        const pod = aPod(ended({ reason: "StartError", exitCode: 128, message }));
        assert.equal(read(pod), `ended ${cause}: StartError: ${message}`);
      });

    for (const [reason, message, cause] of [
      ["Terminated", "Pod was terminated in response to imminent node shutdown.", "evicted"],
      ["Preempting", "Preempted in order to admit critical pod", "evicted"],
      ["Evicted", "Pod was rejected: The node had condition: [MemoryPressure].", "node_rejected"],
      ["UnexpectedAdmissionError", "Allocate failed", "node_rejected"],
      ["NodeLost", "Node node-1 which was running pod is unresponsive", "node_lost"],
    ] as const)
      it(`takes a Pod that failed with ${reason}: ${JSON.stringify(message)} for ${cause}`, () => {
        assert.equal(
          read(aPod({ phase: "Failed", reason, message })),
          `ended ${cause}: ${reason}: ${message}`,
        );
      });

    it("passed its deadline while it was still pulling its image", () => {
      const pod = aPod({
        phase: "Failed",
        reason: "DeadlineExceeded",
        message: "Pod was active on the node longer than the specified deadline",
        ...ended({ reason: "ContainerStatusUnknown", exitCode: 137 }),
      });
      assert.match(read(pod), /^ended deadline: DeadlineExceeded: /);
    });

    it("is lost with its container", () => {
      const message = "The container could not be located when the pod was terminated";
      const pod = aPod({
        phase: "Failed",
        ...ended({ reason: "ContainerStatusUnknown", exitCode: 137, message }),
      });
      assert.equal(read(pod), `ended vanished: ContainerStatusUnknown: ${message}`);
    });

    it("is lost with its node object, though its container was running when it was last heard of", () => {
      const message = "PodGC: node no longer exists";
      const pod = aPod({
        phase: "Failed",
        containerStatuses: executorStatus({ running: {} }),
        ...disrupted("DeletionByPodGC", message),
      });
      assert.equal(read(pod), `ended node_lost: DeletionByPodGC: ${message}`);
    });

    it("was preempted, whatever exit code the bootstrap gave when it was told to stop", () => {
      const message = "default-scheduler: preempting to accommodate a higher priority pod";
      for (const exitCode of [0, 1, 143])
        assert.equal(
          read(
            aPod({ phase: "Failed", ...ended({ exitCode }), ...disrupted("PreemptionByScheduler", message) }),
          ),
          `ended evicted: PreemptionByScheduler: ${message}`,
        );
    });

    it("is not disrupted by what only might have been", () => {
      const conditions = [{ type: "DisruptionTarget", status: "False", reason: "EvictionByEvictionAPI" }];
      assert.equal(
        read(aPod({ phase: "Failed", conditions, ...ended({ exitCode: 1 }) })),
        "ended: exit code 1",
      );
    });

    it("names the init container that failed", () => {
      const pod = aPod({
        phase: "Failed",
        initContainerStatuses: [
          { name: "prepare", state: { terminated: { exitCode: 5, message: "no disk" } } },
        ],
        containerStatuses: executorStatus({ waiting: { reason: "PodInitializing" } }),
      });
      assert.equal(read(pod), "ended start_failed: init container prepare: exit code 5: no disk");
    });

    it("has the reason for which we ended it, and its name if that is one", () => {
      const killed = (more: Record<string, string>) =>
        read(
          aPod(
            { phase: "Failed", reason: "DeadlineExceeded" },
            { metadata: { annotations: { "ci.ddupan.top/killed-for": "no entry", ...more } } },
          ),
        );
      assert.equal(killed({}), "ended: no entry");
      assert.equal(killed({ "ci.ddupan.top/killed-cause": "identity" }), "ended identity: no entry");
      assert.equal(killed({ "ci.ddupan.top/killed-cause": "nonsense" }), "ended: no entry");
    });

    it("has ended when it is deleted before a node took it", () => {
      const metadata = { deletionTimestamp: "2026-01-01T00:00:00Z" };
      assert.equal(
        read(aPod({}, { metadata, spec: { nodeName: undefined } })),
        "ended killed: its Pod was deleted",
      );
    });
  });

  describe("of a Pod that is gone", () => {
    const gone = (pod: Parameters<typeof readGonePod>[0]) => told(readGonePod(pod, []));

    it("stays what it was at the end", () => {
      assert.match(gone(podFixture("OOMKilled").pod), /^ended oom: /);
      assert.match(gone(podFixture("Evicted-by-API").pod), /^ended evicted: /);
    });

    it("ended for our own reason where that stands on it", () => {
      const annotations = {
        "ci.ddupan.top/killed-for": "deadline",
        "ci.ddupan.top/killed-cause": "deadline",
      };
      assert.equal(gone(aPod({}, { metadata: { annotations }, spec: {} })), "ended deadline: deadline");
      const running = { containerStatuses: executorStatus({ running: {} }) };
      assert.equal(gone(aPod(running, { metadata: { annotations } })), "ended deadline: deadline");
    });

    it("is lost with its node, or deleted by somebody", () => {
      assert.match(
        gone(podFixture("NodeLost-unreachable").pod),
        /^ended node_lost: DeletionByTaintManager: /,
      );
      const running = { containerStatuses: executorStatus({ running: {} }) };
      assert.equal(gone(aPod(running)), "ended killed: its Pod was deleted");
      assert.equal(gone(aPod({})), "ended killed: its Pod was deleted");
    });
  });

  it("is some state, with evidence of bounded length, for whatever is given for a Pod", () => {
    const check = (value: unknown, events: readonly unknown[]) => {
      for (const reading of [
        readPod(parsePod(value), parsePodEvents(events)),
        readGonePod(parsePod(value), parsePodEvents(events)),
      ]) {
        assert.match(told(reading), /^(starting|running|ended|permanent|grace|wait)/);
        if (reading.phase === "ended") assert.ok(reading.reason.length <= maxEvidence);
      }
    };
    fc.assert(fc.property(fc.jsonValue(), fc.array(fc.jsonValue()), check), { numRuns: 300 });
    // A real one, with something else in the place of anything in it.
    const real = fc.constantFrom(...podFixtures).map(rawPod);
    fc.assert(
      fc.property(real, fc.nat(), fc.jsonValue(), (pod, at, junk) => {
        const { events, ...rest } = replaced(pod, at, junk) as Record<string, unknown>;
        check(rest, Array.isArray(events) ? events : []);
      }),
      { numRuns: 1000 },
    );
  });
});

/** The value with its `at`th part, counted through, replaced. */
function replaced(value: unknown, at: number, junk: unknown): unknown {
  const size = (one: unknown): number =>
    typeof one === "object" && one !== null
      ? Object.values(one).reduce<number>((n, v) => n + 1 + size(v), 0)
      : 0;
  let left = at % Math.max(1, size(value));
  const walk = (one: unknown): unknown => {
    if (typeof one !== "object" || one === null) return one;
    const inside = Object.entries(one).map(([key, v]) => [key, left-- === 0 ? junk : walk(v)] as const);
    return Array.isArray(one) ? inside.map(([, v]) => v) : Object.fromEntries(inside);
  };
  return walk(value);
}
