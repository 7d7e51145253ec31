import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import type { Cluster } from "../../../controller/kubernetes/cluster.ts";
import { type ClusterVariables, findCluster } from "../../../controller/kubernetes/find-cluster.ts";
import { createHttpsApi } from "../../../controller/kubernetes/https-api.ts";
import { inCluster } from "../../../controller/kubernetes/in-cluster.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { describeError } from "../../../controller/platform/errors.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { serveFakeKubernetes, type ServedKubernetes } from "../../fakes/serve-fake-kubernetes.ts";
import { createFakeKubernetes } from "../../fakes/fake-kubernetes.ts";
import { plantedToken } from "../../support/served-cluster.ts";

const { signal } = new AbortController();

const findIn = (variables: ClusterVariables) => findCluster(variables, systemClock, signal);

describe("the cluster that the environment names", () => {
  let folder: string;
  let server: ServedKubernetes;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "cluster-"));
    server = await serveFakeKubernetes(createFakeKubernetes(systemClock));
    server.tokens.add(plantedToken);
  });
  afterEach(async () => {
    await server[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  const put = async (name: string, content: unknown) => {
    const file = path.join(folder, name);
    await writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
    return file;
  };
  const reaches = async (cluster: Cluster) => {
    const api = createHttpsApi({ cluster, clock: systemClock });
    try {
      await api.call({ method: "GET", path: "/api/v1/nodes" }, signal);
    } finally {
      api.close();
    }
  };
  const refuses = async (work: Promise<unknown>, words: RegExp) => {
    await assert.rejects(work, (error: Error) => {
      assert.equal(error.name, "ClusterConfigError");
      assert.match(error.message, words);
      assert.ok(!`${describeError(error)} ${error.stack}`.includes(plantedToken));
      return true;
    });
  };

  it("is none where nothing names one", async () => {
    await refuses(findIn({}), /KUBECONFIG and KUBERNETES_SERVICE_HOST/);
    await refuses(findIn({ KUBECONFIG: "", KUBERNETES_SERVICE_HOST: "" }), /KUBECONFIG/);
  });

  it("is the own one in a Pod, whose missing token is told by the name of its file", async () => {
    await refuses(
      findIn({ KUBERNETES_SERVICE_HOST: "10.0.0.1", KUBERNETES_SERVICE_PORT: "443" }),
      /\/var\/run\/secrets\/kubernetes\.io\/serviceaccount\/(token|ca\.crt) cannot be read \(ENOENT\)/,
    );
  });

  describe("in a Pod", () => {
    const own = () => inCluster({ host: "127.0.0.1", port: String(server.port), folder });

    it("is reached with the mounted token and CA", async () => {
      await put("token", `${plantedToken}\n`);
      await put("ca.crt", server.ca);
      await reaches(own());
      assert.equal(server.requests[0]?.headers["authorization"], `Bearer ${plantedToken}`);
    });

    it("is reached at an IPv6 address", async function () {
      const served = await serveFakeKubernetes(createFakeKubernetes(systemClock), "::1").catch(() =>
        this.skip(),
      );
      await using six = served;
      six.tokens.add(plantedToken);
      await put("token", plantedToken);
      await put("ca.crt", six.ca);
      const cluster = inCluster({ host: "::1", port: String(six.port), folder });
      assert.equal(cluster.server.host, `[::1]:${six.port}`);
      await reaches(cluster);
    });

    it("is told by its file what is no token", async () => {
      await put("ca.crt", server.ca);
      await put("token", "");
      await refuses(own().load(false), /token is empty/);
      await put("token", `${plantedToken}\n${plantedToken}`);
      await refuses(own().load(false), /token: it holds no token/);
      await chmod(path.join(folder, "token"), 0o600);
    });

    it("is refused at an address that is none", () => {
      assert.throws(() => inCluster({ host: "no host", port: "443" }), { name: "ClusterConfigError" });
    });
  });

  describe("by KUBECONFIG", () => {
    const config = (user: object, cluster: object = {}) => ({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "here",
      contexts: [{ name: "here", context: { cluster: "cluster", user: "user" } }],
      clusters: [
        {
          name: "cluster",
          cluster: {
            server: server.url,
            "certificate-authority-data": Buffer.from(server.ca).toString("base64"),
            ...cluster,
          },
        },
      ],
      users: [{ name: "user", user }],
    });
    const find = async (content: unknown) => findIn({ KUBECONFIG: await put("config", content) });

    it("is reached with a token", async () => {
      await reaches(await find(config({ token: plantedToken })));
    });

    it("counts before the own cluster", async () => {
      const KUBECONFIG = await put("config", config({ token: plantedToken }));
      await reaches(await findIn({ KUBECONFIG, KUBERNETES_SERVICE_HOST: "10.0.0.1" }));
    });

    it("is reached with a client certificate, in files beside it", async () => {
      await put("client.crt", server.client.cert);
      await put("client.key", server.client.key);
      await put("ca.crt", server.ca);
      const content = config(
        { "client-certificate": "client.crt", "client-key": "client.key" },
        { "certificate-authority-data": undefined, "certificate-authority": "ca.crt" },
      );
      await reaches(await find(content));
    });

    it("is reached with the token that a program gives, and asks it anew when that is refused", async () => {
      const given = await put("given", "old-token");
      const program = await put(
        "program",
        `#!/bin/sh\necho '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"'$(cat ${given})'"}}'\n`,
      );
      await chmod(program, 0o700);
      const exec = {
        apiVersion: "client.authentication.k8s.io/v1",
        command: program,
        interactiveMode: "Never",
      };
      const cluster = await find(config({ exec }));
      await put("given", plantedToken);
      await reaches(cluster);
    });

    it("says which program failed to give one, and nothing of what it printed", async () => {
      const program = await put(
        "program",
        `#!/bin/sh\necho '${plantedToken}'; echo '${plantedToken}' >&2; exit 1\n`,
      );
      await chmod(program, 0o700);
      const exec = {
        apiVersion: "client.authentication.k8s.io/v1",
        command: program,
        interactiveMode: "Never",
      };
      await refuses(find(config({ exec })), /KUBECONFIG .*config: its user's credential cannot be had/);
      await writeFile(program, `#!/bin/sh\necho '${plantedToken}'\n`);
      await refuses(find(config({ exec })), /cannot be had/);
    });

    it("says that a program gives none in time", async () => {
      // It ends with the test's folder, whenever it looks.
      const program = await put("program", `#!/bin/sh\nwhile [ -e "$0" ]; do sleep 0.1; done\n`);
      await chmod(program, 0o700);
      const exec = {
        apiVersion: "client.authentication.k8s.io/v1",
        command: program,
        interactiveMode: "Never",
      };
      const clock = createFakeClock();
      const KUBECONFIG = await put("config", config({ exec }));
      const refused = refuses(findCluster({ KUBECONFIG }, clock, signal), /gave no credential within 30 s/);
      await clock.waiting();
      await clock.step(30_000);
      await refused;
    });

    it("may be several files", async () => {
      const { users, ...rest } = config({ token: plantedToken });
      const files = [await put("one", { ...rest, users: [] }), await put("two", { users })];
      await reaches(await findIn({ KUBECONFIG: files.join(path.delimiter) }));
    });

    it("is told by name what is wrong with it", async () => {
      await refuses(findIn({ KUBECONFIG: `${folder}/absent` }), /absent: it cannot be read \(ENOENT\)/);
      await refuses(find(`users: [{ token: ${plantedToken}`), /config: it cannot be read/);
      await refuses(find({}), /no current context/);
      await refuses(find(config({})), /neither a token nor a certificate/);
      await refuses(find(config({ token: `${plantedToken} x` })), /it holds no token/);
      await refuses(find(config({ "client-certificate": "absent.crt" })), /cannot be had \(ENOENT\)/);
    });

    it("is not reached without a verified certificate", async () => {
      const user = { token: plantedToken };
      await refuses(find(config(user, { server: "http://127.0.0.1:8080" })), /no https address/);
      await refuses(find(config(user, { "insecure-skip-tls-verify": true })), /always verified/);
      await refuses(find(config(user, { "proxy-url": "http://127.0.0.1:3128" })), /proxy-url/);
    });
  });
});
