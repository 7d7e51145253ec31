import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "mocha";
import { describeError } from "../../../controller/platform/errors.ts";
import { aStoredTask, soon, testKeyRing, useJetStream } from "../../support/jetstream.ts";
import { useNats } from "../../support/nats.ts";

const secret = "hunter2-hunter2-hunter2";

describe("a task's secrets in the queue", () => {
  const nats = useNats();
  const jetStream = useJetStream(nats);

  it("are in no file, header, log line or error, though the assignment is in clear", async () => {
    const { link, log, queue, settings } = await jetStream.open();
    const sent = link.nats.subscribe(`${settings.subjectBase}.*`);
    await queue().publish(aStoredTask({}, secret), soon());
    const broken = Buffer.from(`${secret} makes no assignment`);
    await queue().publish({ ...aStoredTask({ taskId: 43n }), compressedTask: broken }, soon());
    const contents = (await Array.fromAsync(queue().scan(soon()))).map(({ content }) => content);
    const error = await queue({ keyRing: testKeyRing(2) })
      .publish({ ...aStoredTask({}, secret), compressedTask: Buffer.alloc(9_000_000, secret) }, soon())
      .then(() => assert.fail("it was stored"), describeError);
    sent.unsubscribe();
    const headers: string[] = [];
    for await (const { headers: sentHeaders } of sent) headers.push(JSON.stringify([...(sentHeaders ?? [])]));
    assert.match(headers.join(), /gitea-task-42.*gitea-task-43/);
    await nats.stop();

    const folder = join(dirname(nats.passwordFile), "jetstream");
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    const stored = await Promise.all(files.map(({ parentPath, name }) => readFile(join(parentPath, name))));
    const all = Buffer.concat([
      ...stored,
      Buffer.from(headers.join()),
      Buffer.from(`${log.text()} ${error}`),
      Buffer.from(
        JSON.stringify(contents[1], (_, value: unknown) => (typeof value === "bigint" ? "" : value)),
      ),
    ]);
    assert.ok(all.includes('"id":"gitea-task-42"'), "the files of the stream were read");
    assert.ok(contents[0]?.kind === "assignment");
    assert.ok(Buffer.from(contents[0].compressedTask).includes(secret), "the task holds it");
    assert.equal(contents[1]?.kind, "invalid");
    assert.equal(all.includes("hunter2"), false);
  });
});
