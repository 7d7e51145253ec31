import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "mocha";
import { runToEnd } from "../../scripts/peers/run-to-end.ts";
import { useQueueStack } from "../support/infra/use-queue-stack.ts";

const program = path.join(import.meta.dirname, "../../scripts/preview.ts");

describe("npm run preview, with Pulumi's engine", () => {
  const queue = useQueueStack();
  const { stack, configure, everything } = queue;
  const preview = async (name: string) => {
    const { environment } = queue.pulumi;
    const command = { program: process.execPath, args: [program, name], environment, deadline: 480_000 };
    return await runToEnd({ ...command, folder: stack.folder }, new AbortController().signal);
  };

  it("B-107 tells a plan as a comment, and changes nothing", async () => {
    await configure();
    const { exitCode, stdout, stderr } = await preview("prod");
    assert.equal(exitCode, 0, stderr);
    assert.match(stdout, /^## Plan of stack prod\n\n8 to create\.\n\n```\n/);
    assert.match(stdout, /\+ jetstream:index:Stream: \(create\)/);
    assert.match(stdout, /```\n$/);
    assert.doesNotMatch(stdout, /^@/m);
    assert.deepEqual(await everything(), { streams: [], consumers: [] });
  });

  it("B-107 sees what was changed by hand, where a plain preview does not", async () => {
    await stack.done("up", "--yes");
    assert.match((await preview("prod")).stdout, /\n\n8 unchanged\.\n\n/);
    await queue.server.consumers.update("CI_RUNNER", "pod", { max_ack_pending: 99 });
    const old = await everything();
    const { exitCode, stdout } = await preview("prod");
    assert.equal(exitCode, 0);
    assert.match(stdout, /maxAckPending: 99 => 4/);
    assert.match(stdout, /\n\n1 to update, 7 unchanged\.\n\n/);
    assert.deepEqual(await everything(), old);
  });

  it("B-107 fails for a stack that there is none of, and for settings that are wrong", async () => {
    const none = await preview("none");
    assert.equal(none.exitCode, 1);
    assert.match(none.stdout, /\*\*No plan:\*\* there is no stack none: pulumi stack init none makes it\./);
    assert.match(none.stderr, /^preview: there is no stack none/);
    await configure({ pod: { capacity: 0 } });
    const wrong = await preview("prod");
    assert.equal(wrong.exitCode, 1);
    assert.match(wrong.stdout, /\*\*No plan:\*\* the stack's configuration is not usable\./);
    assert.match(wrong.stdout, /pod\.capacity: it has to be 1 or more/);
  });

  it("B-107 fails where NATS cannot be reached, also for a stack that has nothing yet", async () => {
    await configure();
    await queue.nats.stop();
    for (const empty of [false, true]) {
      if (empty) {
        await queue.nats.start();
        await stack.done("destroy", "--yes");
        await queue.nats.stop();
      }
      const { exitCode, stdout } = await preview("prod");
      assert.equal(exitCode, 1, stdout);
      assert.match(
        stdout,
        /\*\*No plan:\*\* NATS cannot be reached, so nobody knows what is there \(jetstream: /,
      );
    }
    await queue.nats.start();
  });
});
