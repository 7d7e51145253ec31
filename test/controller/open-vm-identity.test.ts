import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, it } from "mocha";
import { defaultTimes } from "../../controller/assignment/times.ts";
import { ConfigError } from "../../controller/config.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { createLateSource } from "../../controller/late-source.ts";
import { openVmIdentity } from "../../controller/open-vm-identity.ts";
import { createFakeClock } from "../fakes/fake-clock.ts";
import { createFakeKubernetes } from "../fakes/fake-kubernetes.ts";
import { createFakeSpireServer } from "../fakes/fake-spire-server.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { anAssignment, anExecutorMetadata, testTrustDomain } from "../support/builders.ts";
import { createTestCa, issueLeaf } from "../support/test-pki.ts";
import { asSvid, createSettableSource } from "./spiffe/settable-source.ts";

const { signal } = new AbortController();
const metadata = anExecutorMetadata({ assignment: anAssignment({ backend: "vm" }) });
const ourId = parseSpiffeId("spiffe://example.org/controller");
const settings = { socket: "unix:///run/agent.sock", uid: 2000 };
const common = {
  gitea: { url: "", uuid: metadata.owner, token: "" },
  trustDomain: testTrustDomain,
  times: defaultTimes,
};

describe("the identity of VMs that a configuration selects", () => {
  const clock = createFakeClock();
  const basics = { clock, random: () => 0.5, log: createRecordingLogger(), source: createLateSource() };

  it("is that of the template", async () => {
    const identity = openVmIdentity({ ...common, vmIdentity: { kind: "template", ...settings } }, basics);
    const environment = await identity.prepare(metadata, signal);
    assert.equal(environment["SPIFFE_ENDPOINT_SOCKET"], settings.socket);
    assert.equal(environment["CI_SPIRE_JOIN_TOKEN"], undefined);
  });

  it("is that of an agent of its own, once we have an SVID ourselves", async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await mkdtemp(path.join(tmpdir(), "vm-identity-"));
    stack.defer(() => rm(folder, { recursive: true }));
    const server = stack.use(createFakeSpireServer(testTrustDomain));
    const socket = path.join(folder, "api.sock");
    await server.listen(socket);
    const source = createLateSource();
    const identity = openVmIdentity(
      {
        ...common,
        vmIdentity: {
          kind: "guest-agent",
          ...settings,
          server: { kind: "unix", path: socket },
          guestServer: { host: "fd00::1", port: 8081 },
          entries: { className: "ci", svidTtlSeconds: 600 },
        },
      },
      { ...basics, source, kubernetes: createFakeKubernetes(clock).api },
    );
    await assert.rejects(identity.prepare(metadata, signal), (error: Error) =>
      /our own X.509-SVID has not come yet/.test(String(error.cause)),
    );
    assert.equal(server.tokens.size, 0);

    const ca = await createTestCa();
    source.open(createSettableSource(asSvid(ourId, await issueLeaf(ca, ourId), ca)));
    const environment = await identity.prepare(metadata, signal);
    assert.deepEqual([...server.tokens.keys()], [environment["CI_SPIRE_JOIN_TOKEN"]]);
    assert.deepEqual([...server.tokens.values()], [defaultTimes.startMs / 1000]);
    assert.match(environment["CI_SPIRE_JOIN_TOKEN"] ?? "", /^ci\..*\.[0-9a-f]{32}$/);
    assert.equal(environment["CI_SPIRE_SERVER"], "[fd00::1]:8081");
    assert.equal(environment["CI_SPIRE_BUNDLE"], ca.pem);

    const over = new AbortController();
    const running = identity.run(
      async () => true,
      () => {},
      over.signal,
    );
    over.abort();
    await running;
  });

  it("is refused where there is no cluster for the entries, or no VM", () => {
    const server = { kind: "unix", path: "/run/x.sock" } as const;
    const guests = { kind: "guest-agent", ...settings, server, guestServer: { host: "x", port: 1 } } as const;
    const entries = { className: "ci", svidTtlSeconds: 600 };
    for (const vmIdentity of [undefined, { ...guests, entries }])
      assert.throws(() => openVmIdentity({ ...common, vmIdentity }, basics), ConfigError);
  });
});

describe("our own SVID that comes later", () => {
  it("is followed by whoever asked for it before, until they want no more", async () => {
    const ca = await createTestCa();
    const first = asSvid(ourId, await issueLeaf(ca, ourId), ca);
    const source = createSettableSource(first);
    const late = createLateSource();
    const seen: string[] = [];
    const stops = ["early", "gone", "late"].map((name, index) => {
      if (index === 2) late.open(source);
      return late.onUpdate(() => seen.push(name));
    });
    assert.equal(late.current(), first);
    stops[1]?.();
    source.set(first);
    assert.deepEqual(seen, ["early", "late"]);
    stops[0]?.();
    source.set(first);
    assert.deepEqual(seen, ["early", "late", "late"]);
  });

  it("is not asked for by who has stopped before it came", () => {
    const late = createLateSource();
    late.onUpdate(() => assert.fail("told"))();
    late.open({ current: () => assert.fail("asked"), onUpdate: () => assert.fail("followed") });
  });
});
