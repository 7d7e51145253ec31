import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer, connect as dial, type Server } from "node:net";
import path from "node:path";
import { describe, it } from "mocha";
import { connect, RetentionPolicy } from "nats";
import { freePort } from "../../scripts/peers/free-port.ts";
import { startServer, type ServerProcess } from "../../scripts/peers/server-process.ts";
import { usePlatform } from "../support/platform.ts";

const main = path.join(import.meta.dirname, "../../controller/main.ts");
/** A busy machine takes long to read a program of a thousand files. */
const soonMs = 60_000;

/** Hands connections on to a port, as if the program behind it had just come up there. */
async function forward(from: number, to: number): Promise<Server> {
  const server = createServer((socket) => {
    const onward = dial(to, "127.0.0.1");
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(from, "127.0.0.1", resolve);
  await promise;
  return server;
}

describe("a controller that starts", function () {
  this.timeout(3 * soonMs);
  const real = usePlatform();
  let controllers = 0;

  /** Another controller beside the platform's own, on a folder of its own, with some variables changed or missing. */
  const start = async (changed: NodeJS.ProcessEnv): Promise<ServerProcess> => {
    const folder = path.join(real.platform.folder, `controller-${++controllers}`);
    await mkdir(folder, { mode: 0o755 });
    const ports = {
      RUNNER_FACADE_LISTEN: `127.0.0.1:${await freePort()}`,
      HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
    };
    return startServer({
      name: "the controller",
      program: process.execPath,
      args: [main],
      folder,
      environment: {
        ...real.platform.environment,
        ...ports,
        LOCAL_FOLDER: folder,
        NATS_STREAM: `OTHER_${controllers}`,
        NATS_SUBJECT_BASE: `other.${controllers}`,
        ...changed,
      },
      logFile: path.join(folder, "controller.log"),
    });
  };
  const logOf = () =>
    readFile(path.join(real.platform.folder, `controller-${controllers}`, "controller.log"), "utf8");
  const line = (controller: ServerProcess, pattern: RegExp) =>
    controller.line(pattern, soonMs, AbortSignal.timeout(soonMs));
  /** The only error that it tells. */
  const stopped = async () => {
    const errors = (await logOf()).split("\n").filter((text) => /"level":"(error|fatal)"/.test(text));
    assert.equal(errors.length, 1, errors.join("\n"));
    assert.match(errors[0] ?? "", /"msg":"runner stopped"/);
    return errors[0] ?? "";
  };

  it("with a wrong token ends with code 1 and one line that names the variables, without the token", async () => {
    const file = path.join(real.platform.folder, "wrong-token");
    await writeFile(file, "not-the-token-of-anybody\n", { mode: 0o600 });
    const controller = await start({ GITEA_RUNNER_TOKEN_FILE: file });
    assert.equal(await controller.exited, "exit code 1");
    assert.match(await stopped(), /GITEA_RUNNER_UUID and the token in GITEA_RUNNER_TOKEN_FILE/);
    assert.doesNotMatch(await logOf(), /not-the-token-of-anybody/);
  });

  it("on a stream of another configuration ends with code 1 and says what differs", async () => {
    const { nats } = real.platform;
    const client = await connect({ servers: nats.url, user: nats.user, pass: nats.password });
    try {
      const manager = await client.jetstreamManager();
      await manager.streams.add({
        name: "LIMITED",
        subjects: ["limited.*"],
        retention: RetentionPolicy.Limits,
      });
    } finally {
      await client.close();
    }
    const controller = await start({ NATS_STREAM: "LIMITED", NATS_SUBJECT_BASE: "limited" });
    assert.equal(await controller.exited, "exit code 1");
    assert.match(await stopped(), /LIMITED.*retention/);
  });

  it("with variables that are missing or malformed ends with code 1 and names them all", async () => {
    const malformed = { POD_CAPACITY: "none", GITEA_URL: "gitea" };
    const controller = await start({ ...malformed, TRUST_DOMAIN: "", NATS_URL: undefined });
    assert.equal(await controller.exited, "exit code 1");
    const text = await stopped();
    for (const name of ["POD_CAPACITY", "GITEA_URL", "TRUST_DOMAIN", "NATS_URL"])
      assert.match(text, new RegExp(name));
  });

  it("waits for a NATS that is not there yet, says so, and goes on when it comes", async () => {
    const port = await freePort();
    const controller = await start({ NATS_URL: `nats://127.0.0.1:${port}` });
    try {
      await line(controller, /nats is not reachable, waiting for it/);
      const server = await forward(port, real.platform.nats.port);
      try {
        await line(controller, /"msg":"runner started"/);
      } finally {
        await controller.stop();
        server.close();
      }
      assert.equal(await controller.exited, "exit code 0");
    } finally {
      await controller.stop();
    }
  });

  it("waits for a Gitea that is not there yet, says so, and goes on when it comes", async () => {
    const port = await freePort();
    const controller = await start({ GITEA_URL: `http://127.0.0.1:${port}` });
    try {
      await line(controller, /"msg":"scheduler error"/);
      const server = await forward(port, real.platform.gitea.port);
      try {
        await line(controller, /"msg":"declared to gitea"/);
      } finally {
        await controller.stop();
        server.close();
      }
      assert.equal(await controller.exited, "exit code 0");
    } finally {
      await controller.stop();
    }
  });

  it("waits for another controller that leads on the same folder", async () => {
    const folder = real.platform.environment["LOCAL_FOLDER"];
    assert.ok(folder !== undefined);
    const controller = await start({ LOCAL_FOLDER: folder });
    try {
      await line(controller, /another controller leads on this folder/);
    } finally {
      await controller.stop();
    }
    assert.equal(await controller.exited, "exit code 0");
  });
});
