import { describe } from "mocha";
import { describeOpenSandbox } from "../support/opensandbox/api-contract.ts";
import { realUnderTest } from "../support/opensandbox/real-under-test.ts";
import { useOpenSandbox } from "../support/opensandbox/use-opensandbox.ts";

describe("a real OpenSandbox server", () => {
  const lab = useOpenSandbox({ createSeconds: 6, poolSeconds: 3 });

  describeOpenSandbox(() => Promise.resolve(realUnderTest(lab)));
});
