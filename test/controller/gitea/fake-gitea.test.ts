import { after, before, describe } from "mocha";
import { startFakeGitea, type FakeGitea } from "../../fakes/fake-gitea.ts";
import { describeGitea, type ContractGitea } from "../../support/gitea-contract.ts";

describe("the fake Gitea", () => {
  let fake: FakeGitea;

  before(async () => {
    fake = await startFakeGitea();
  });
  after(() => fake[Symbol.asyncDispose]());

  const contract: ContractGitea = {
    get url() {
      return fake.url;
    },
    addRunner: () => Promise.resolve(fake.addRunner()),
    addJob: (runsOn, steps = 1) => {
      const job = fake.addJob({ runsOn, steps });
      return Promise.resolve({
        cancel: async () => fake.cancel(job),
        remove: async () => fake.removeJob(job),
        shown: async () => fake.shown(job),
        log: async () => job.task?.log ?? [],
      });
    },
    breakLogStore: () => {
      fake.setLogStore(false);
      return Promise.resolve({ [Symbol.asyncDispose]: async () => fake.setLogStore(true) });
    },
  };

  describeGitea("as a runner sees it", () => contract);
});
