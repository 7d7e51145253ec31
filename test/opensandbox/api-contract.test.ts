import { describe } from "mocha";
import { describeOpenSandbox } from "../support/opensandbox/api-contract.ts";
import { realUnderTest } from "../support/opensandbox/real-under-test.ts";
import { useOpenSandbox } from "../support/opensandbox/use-opensandbox.ts";

describe("a real OpenSandbox server", () => {
  // A VM that a test gives comes well before the server gives up, also on a busy machine.
  const lab = useOpenSandbox({ createSeconds: 14, poolSeconds: 7 });

  describeOpenSandbox(() => Promise.resolve(realUnderTest(lab)));
});
