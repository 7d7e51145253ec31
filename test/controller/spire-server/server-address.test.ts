import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { formatSpireServer, parseSpireServer } from "../../../controller/spire-server/server-address.ts";

describe("the address of a SPIRE server", () => {
  for (const [text, address] of [
    ["unix:///run/spire/server/api.sock", { kind: "unix", path: "/run/spire/server/api.sock" }],
    ["spire-server.spire:8081", { kind: "tcp", host: "spire-server.spire", port: 8081 }],
    ["10.0.0.7:443", { kind: "tcp", host: "10.0.0.7", port: 443 }],
    ["[fd00::1]:8081", { kind: "tcp", host: "fd00::1", port: 8081 }],
  ] as const)
    it(`is ${text}`, () => {
      assert.deepEqual(parseSpireServer(text), address);
      assert.equal(formatSpireServer(address), text);
    });

  for (const text of [
    "",
    "spire-server",
    "spire-server:0",
    "spire-server:65536",
    "https://spire-server:8081",
    "spire-server:8081/x",
    "me@spire-server:8081",
    "fd00::1:8081",
    "[spire-server]:8081",
    "-x:1",
    "tcp://10.0.0.7:443",
    "unix://run/api.sock",
    "a b:1",
  ])
    it(`is not ${JSON.stringify(text)}`, () => {
      assert.throws(() => parseSpireServer(text), /is neither|is no Workload API endpoint/);
    });
});
