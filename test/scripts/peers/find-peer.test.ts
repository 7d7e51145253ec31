import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { describe, it } from "mocha";
import { describeError } from "../../../controller/platform/errors.ts";
import { readPin } from "../../../scripts/peers/pin.ts";
import { preparePeer } from "../../../scripts/peers/prepare-peer.ts";
import { fakeGo, useFakeTools } from "../../support/fake-tools.ts";

const soon = () => AbortSignal.timeout(50_000);

describe("finding a peer", () => {
  const tools = useFakeTools();
  const prepare = async (more: NodeJS.ProcessEnv = {}) => {
    const environment = { ...tools.environment, ...more };
    return await preparePeer("nats-server", { environment }, soon());
  };
  const messageOf = async (more: NodeJS.ProcessEnv) =>
    await prepare(more).then(
      () => assert.fail("it was found"),
      (error: unknown) => describeError(error),
    );

  it("takes what the environment names, whatever its version", async () => {
    const binary = await tools.script("mine", "echo nats-server: v9.8.7-mine");
    const expected = { name: "nats-server", version: "9.8.7-mine", binary, source: "environment" };
    assert.deepEqual(await prepare({ NATS_SERVER_BINARY: binary }), expected);
    assert.deepEqual(await prepare({ NATS_SERVER_BINARY: "mine" }), expected);
  });

  it("names the variable when nothing is at its path", async () => {
    const text = await messageOf({ NATS_SERVER_BINARY: "/nowhere/nats" });
    assert.match(text, /^NATS_SERVER_BINARY=\/nowhere\/nats is not usable as nats-server: .*no program/);
  });

  it("names the variable when its program fails, says nothing useful, or may not be executed", async () => {
    const broken = await tools.script("broken", "echo out of order >&2", "exit 3");
    assert.match(
      await messageOf({ NATS_SERVER_BINARY: broken }),
      /NATS_SERVER_BINARY.*exit code 3: out of order/s,
    );
    const mute = await tools.script("mute", "echo hello");
    assert.match(await messageOf({ NATS_SERVER_BINARY: mute }), /NATS_SERVER_BINARY.*--version says "hello/s);
    await chmod(mute, 0o644);
    assert.match(await messageOf({ NATS_SERVER_BINARY: mute }), /NATS_SERVER_BINARY.*can be executed/s);
    assert.match(await messageOf({ NATS_SERVER_BINARY: "missing" }), /NATS_SERVER_BINARY.*not on PATH/s);
  });

  it("reads the version of one that tells it on stderr, as SPIRE does", async () => {
    const binary = await tools.script("agent", "echo 1.2.3 >&2");
    const environment = { ...tools.environment, SPIRE_AGENT_BINARY: binary };
    const expected = { name: "spire-agent", version: "1.2.3", binary, source: "environment" };
    assert.deepEqual(await preparePeer("spire-agent", { environment }, soon()), expected);
  });

  it("does not ask a program for its version that has none to tell", async () => {
    const binary = await tools.script("entries", "exit 1");
    const environment = { ...tools.environment, SPIRE_CONTROLLER_MANAGER_BINARY: binary };
    const peer = await preparePeer("spire-controller-manager", { environment }, soon());
    assert.deepEqual(peer, {
      name: "spire-controller-manager",
      version: "unknown",
      binary,
      source: "environment",
    });
  });

  it("passes over another version on PATH, and builds", async () => {
    const { version } = await readPin("nats-server");
    await tools.script("nats-server", "echo nats-server: v0.0.1");
    await tools.script("go", ...fakeGo(version, ""));
    const peer = await prepare();
    assert.equal(peer.source, "built");
    assert.ok(peer.binary.startsWith(`${tools.cache}/nats-server-${version}-`));
  });

  it("then finds the cached one, without Go", async () => {
    await tools.script("go", "exit 1");
    assert.equal((await prepare()).source, "cache");
  });

  it("prefers the pinned version on PATH to the cache", async () => {
    const { version } = await readPin("nats-server");
    const binary = await tools.script("nats-server", `echo nats-server: v${version}`);
    assert.deepEqual(await prepare(), { name: "nats-server", version, binary, source: "path" });
  });

  it("prefers what the environment names to the pinned version on PATH and in the cache", async () => {
    const binary = await tools.script("other", "echo nats-server: v9.8.7");
    assert.deepEqual(await prepare({ NATS_SERVER_BINARY: binary }), {
      name: "nats-server",
      version: "9.8.7",
      binary,
      source: "environment",
    });
  });
});
