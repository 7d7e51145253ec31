import { describe } from "mocha";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { startFakeOpenSandbox } from "../../fakes/opensandbox/fake-opensandbox.ts";
import { describeOpenSandbox } from "../../support/opensandbox/api-contract.ts";

const limits = { createMs: 6_000, poolMs: 3_000, lifeSeconds: 86_400 };

describe("the fake OpenSandbox server", () => {
  describeOpenSandbox(async () => {
    const clock = createFakeClock();
    const fake = await startFakeOpenSandbox({ clock, ...limits });
    const done = (work: void) => Promise.resolve(work);
    return {
      url: fake.url,
      key: fake.key,
      limits,
      clock,
      pass: (ms) => clock.step(ms),
      pools: {
        setPool: (name, places) => done(fake.pools.set(name, places)),
        removePool: (name) => done(fake.pools.remove(name)),
        asked: async (metadata) => (await fake.asked(metadata)).id,
        isThere: (id) => Promise.resolve(fake.sandbox(id) !== undefined),
        give: (id) => done(fake.give(id)),
        giveUnready: (id) => done(fake.give(id, { kind: "unready" })),
        setFull: (id, isFull) => done(fake.change(id, { isFull })),
        fail: (id, message) => done(fake.fail(id, message)),
        end: (id) => done(fake.end(id)),
        confuse: (id) => done(fake.change(id, { vm: { kind: "none" } })),
        label: (id, label) => done(fake.change(id, { labels: { ...fake.sandbox(id)?.labels, ...label } })),
        hold: (id) => done(fake.hold(id)),
        release: (id) => done(fake.release(id)),
        remove: (id) => done(fake.remove(id)),
      },
      restart: () => done(fake.restart()),
      setStoreAway: (isAway) => done(fake.setStoreAway(isAway)),
      [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose](),
    };
  });
});
