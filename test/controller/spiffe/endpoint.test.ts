import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { formatEndpoint, parseEndpoint } from "../../../controller/spiffe/endpoint.ts";

describe("Workload API endpoint", () => {
  it("is a unix socket with an absolute path", () => {
    const endpoint = parseEndpoint("unix:///run/spire/agent-sockets/spire-agent.sock");
    assert.deepEqual(endpoint, { kind: "unix", path: "/run/spire/agent-sockets/spire-agent.sock" });
    assert.equal(formatEndpoint(endpoint), "unix:///run/spire/agent-sockets/spire-agent.sock");
    assert.deepEqual(parseEndpoint("unix:/run/api.sock"), { kind: "unix", path: "/run/api.sock" });
  });

  it("is a TCP port of an IP address", () => {
    assert.deepEqual(parseEndpoint("tcp://127.0.0.1:8000"), { kind: "tcp", host: "127.0.0.1", port: 8000 });
    const six = parseEndpoint("tcp://[::1]:8000");
    assert.deepEqual(six, { kind: "tcp", host: "::1", port: 8000 });
    assert.equal(formatEndpoint(six), "tcp://[::1]:8000");
  });

  const refused: readonly (readonly [string, RegExp])[] = [
    ["", /must start with unix:\/\/ or tcp:\/\//],
    ["/run/api.sock", /must start with/],
    ["http://127.0.0.1:1", /must start with/],
    ["UNIX:///run/api.sock", /must start with/],
    ["unix:run/api.sock", /must be absolute/],
    ["unix://run/api.sock", /must be absolute/],
    ["unix://", /must be absolute/],
    ["unix:///", /not a folder/],
    ["unix:///run/", /not a folder/],
    ["unix:///run/a%20b.sock", /must not hold/],
    ["unix:///run/api.sock?x=1", /must not hold/],
    ["unix:///run/api.sock#x", /must not hold/],
    [`unix:///${"a".repeat(107)}`, /108 bytes, a socket's may have 107/],
    ["tcp://localhost:8000", /must be an IP address/],
    ["tcp://1.2.3.256:8000", /must be an IP address/],
    ["tcp://[1.2.3.4]:8000", /must be an IP address/],
    ["tcp://::1:8000", /must be tcp:\/\/IP:port/],
    ["tcp://127.0.0.1", /must be tcp:\/\/IP:port/],
    ["tcp://127.0.0.1:8000/", /must be tcp:\/\/IP:port/],
    ["tcp://me@127.0.0.1:8000", /must be tcp:\/\/IP:port/],
    ["tcp://127.0.0.1:0", /port must be/],
    ["tcp://127.0.0.1:65536", /port must be/],
  ];
  for (const [text, message] of refused) {
    it(`refuses ${JSON.stringify(text.slice(0, 40))}`, () => {
      assert.throws(() => parseEndpoint(text), message);
    });
  }
});
