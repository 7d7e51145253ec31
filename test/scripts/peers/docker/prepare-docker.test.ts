import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "mocha";
import { prepareDocker } from "../../../../scripts/peers/docker/prepare-docker.ts";
import { useFakeTools } from "../../../support/fake-tools.ts";

const { signal } = new AbortController();

describe("prepareDocker", () => {
  const tools = useFakeTools();
  const prepare = (more: NodeJS.ProcessEnv = {}) =>
    prepareDocker({ environment: { ...tools.environment, ...more } }, signal);

  it("says what is wrong where apt knows no package, and where the package cannot be had", async () => {
    await tools.script("apt-cache", "echo Package: docker.io");
    await assert.rejects(prepare(), /apt knows no docker\.io; run apt-get update/);
    await tools.script("apt-cache", "echo Package: docker.io; echo Version: 1.2-3");
    await tools.script("apt-get", "echo 'E: Failed to fetch' >&2; exit 100");
    await assert.rejects(prepare(), (error: Error) => {
      assert.match(error.message, /^docker 1\.2-3 cannot be had from Debian's archive$/);
      assert.match(String(error.cause), /Failed to fetch/);
      return true;
    });
    assert.deepEqual(await readdir(tools.cache), []);
  });

  it("downloads the version that apt would install, and unpacks it into the cache, once", async () => {
    await tools.script("apt-get", 'echo "$*" >> "$CALLS"; touch docker.io_1.2-3_amd64.deb');
    await tools.script(
      "dpkg",
      'mkdir -p "$3/usr/sbin" "$3/usr/bin"; echo > "$3/usr/sbin/dockerd"; chmod +x "$3/usr/sbin/dockerd"',
    );
    const folder = join(tools.cache, `docker-1.2-3-${process.platform}-${process.arch}`);
    const folders = [join(folder, "usr/sbin"), join(folder, "usr/bin")];
    const both = await Promise.all([prepare(), prepare()]);
    for (const peer of both) assert.deepEqual(peer.folders, folders);
    assert.deepEqual(both.map(({ source }) => source).toSorted(), ["built", "cache"]);
    assert.deepEqual(await prepare(), { name: "docker", version: "1.2-3", source: "cache", folders });
    assert.deepEqual(await tools.calls(), ["download -o DPkg::Lock::Timeout=300 docker.io=1.2-3"]);
    assert.deepEqual(await readdir(tools.cache), [`docker-1.2-3-${process.platform}-${process.arch}`]);
  });

  it("takes the folder that DOCKER_ENGINE names, and no other file", async () => {
    await tools.script("dockerd", "exit 0");
    const { version, folders } = await prepare({ DOCKER_ENGINE: tools.bin });
    assert.deepEqual([version, folders], ["unknown", [tools.bin]]);
    await assert.rejects(
      prepare({ DOCKER_ENGINE: "/nowhere" }),
      /DOCKER_ENGINE=\/nowhere is no folder with dockerd/,
    );
  });
});
