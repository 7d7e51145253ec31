import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { describe, it } from "mocha";
import { compressTask, decompressTask } from "../../../controller/protocol/compressed-task.ts";
import { TaskSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { aTask } from "../../support/a-task.ts";

describe("a compressed task", () => {
  it("comes back as it was, with fields that we do not know", async () => {
    // Field 99, a string.
    const unknown = Buffer.from([0x9a, 0x06, 0x03, 0x6e, 0x65, 0x77]);
    const task = fromBinary(TaskSchema, Buffer.concat([toBinary(TaskSchema, aTask()), unknown]));
    const back = await decompressTask(await compressTask(task));
    assert.deepEqual(toBinary(TaskSchema, back), toBinary(TaskSchema, task));
    assert.equal(back.$unknown?.[0]?.no, 99);
  });

  it("is refused when it is no gzip, no task, cut off, or larger than any", async () => {
    await assert.rejects(decompressTask(Buffer.from("no gzip")));
    await assert.rejects(decompressTask(gzipSync(Buffer.from([0xff, 0xff]))));
    const whole = await compressTask(aTask());
    await assert.rejects(decompressTask(whole.subarray(0, -9)));
    await assert.rejects(decompressTask(gzipSync(Buffer.alloc(64 * 1024 * 1024 + 1))));
  });
});
