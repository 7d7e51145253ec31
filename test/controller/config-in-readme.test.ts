import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "mocha";
import { schemaFor } from "../../controller/config/variables.ts";
import { ConfigError, readConfig } from "../../controller/config.ts";

type Environment = Readonly<Record<string, string>>;

const readFile = () => "a-secret-of-at-least-32-characters";
const always: Environment = {
  GITEA_URL: "https://gitea.example.org",
  GITEA_RUNNER_UUID: "8f14e45f-ceea-467f-a0e6-c4e8e1c8a1b2",
  GITEA_RUNNER_TOKEN_FILE: "/token",
  NATS_URL: "nats://nats.example.org:4222",
  NATS_USER: "ci",
  NATS_PASSWORD_FILE: "/nats",
  TRUST_DOMAIN: "example.org",
  SPIFFE_ENDPOINT_SOCKET: "unix:///run/spire/api.sock",
  RUNNER_FACADE_URL: "https://facade.example.org:8443",
  RUNNER_FACADE_SPIFFE_ID: "spiffe://example.org/facade",
  CAPABILITY_KEY_FILE: "/keys",
};
const cluster: Environment = {
  ...always,
  POD_EXECUTOR_IMAGE: "registry.example.org/runner:1",
  SPIRE_AGENT_ID: "spiffe://example.org/agent/{nodeUid}",
  CONTROLLER_NAMESPACE: "ci",
  HOSTNAME: "controller-0",
  OPENSANDBOX_API: "http://opensandbox.example.org",
  OPENSANDBOX_API_KEY_FILE: "/opensandbox",
};
const local: Environment = {
  ...always,
  POD_BACKEND: "local",
  VM_BACKEND: "local",
  LOCAL_FOLDER: "/var/lib/runner",
  GITEA_RUNNER_BINARY: "/usr/local/bin/gitea-runner",
  LOCAL_WORKLOAD_API_FOLDER: "/run/spiffe",
};
const spire: Environment = {
  ...local,
  LOCAL_IDENTITY: "spire",
  LOCAL_SPIRE_SERVER_BINARY: "/opt/spire/bin/spire-server",
  LOCAL_SPIRE_SERVER_SOCKET: "/run/spire-server/api.sock",
  LOCAL_SPIRE_PARENT_ID: "spiffe://example.org/host",
  LOCAL_SPIRE_AGENT_SOCKET: "/run/spire/api.sock",
};

/** What the table says: the cell with the default, for each variable. */
function defaultsInTable(): ReadonlyMap<string, string> {
  const page = readFileSync(`${import.meta.dirname}/../../README.md`, "utf8");
  const [, section = ""] = /^## Configuration$(.*?)^## /ms.exec(page) ?? [];
  const cells = new Map<string, string>();
  for (const line of section.split("\n").filter((row) => row.startsWith("| `"))) {
    const [, variables = "", otherwise = ""] = line.split("|").map((cell) => cell.trim());
    const names = [...variables.matchAll(/`([A-Z_]+)`/g)].map(([, name = ""]) => name);
    const each = variables.includes(" / ") ? otherwise.split(" / ") : [];
    for (const [index, name] of names.entries()) cells.set(name, each[index] ?? each[0] ?? otherwise);
  }
  return cells;
}

/** All that is asked for when only this is given. */
function required(environment: Environment): readonly string[] {
  try {
    readConfig(environment, readFile);
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    return [...error.message.matchAll(/(\w+) is required/g)].map(([, name = ""]) => name);
  }
  return [];
}

describe("the README's table of the configuration", () => {
  const table = defaultsInTable();

  it("has every variable, and no other", () => {
    // The former says to a library how to reach the cluster, of the latter the text below the table tells.
    const apart = ["KUBECONFIG", "NODE_ENV"];
    const known = Object.keys(schemaFor(readFile).shape);
    const told = [...table.keys()];
    const others = (names: readonly string[]) => names.filter((name) => !apart.includes(name)).toSorted();
    assert.deepEqual(others(told), others(known));
  });

  it("has no default for what is required, if only for one backend, and something for all else", () => {
    const asked = [
      {},
      { POD_BACKEND: "local" },
      { POD_BACKEND: "local", LOCAL_IDENTITY: "spire" },
      { VM_IDENTITY: "guest-agent" },
    ];
    // With `local` it has one.
    const needed = new Set(asked.flatMap(required).filter((name) => name !== "HOSTNAME"));
    const bare = [...table].filter(([, otherwise]) => otherwise === "").map(([name]) => name);
    assert.deepEqual(bare.toSorted(), [...needed].toSorted());
  });

  for (const [name, cell] of table) {
    const [, value = cell] = /^`(.*)`$/.exec(cell) ?? [];
    if (/^[\w.:,-]+$/.test(value) && value !== "none")
      it(`tells the default of ${name}`, () => {
        const without = [cluster, local, spire].filter((one) => one[name] === undefined);
        assert.ok(without.length > 0);
        for (const one of without)
          assert.deepEqual(readConfig({ ...one, [name]: value }, readFile), readConfig(one, readFile));
      });
  }
});
