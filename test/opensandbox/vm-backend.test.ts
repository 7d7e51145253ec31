import { describe } from "mocha";
import { describeBackend } from "../support/backend-contract.ts";
import { useOpenSandbox } from "../support/opensandbox/use-opensandbox.ts";
import { makeVmLab } from "./vm-lab.ts";

/** Executors of the contract suite live until 2100. */
const lifeSeconds = 10_000_000_000;

describe("the VM backend on a real OpenSandbox server", () => {
  const lab = useOpenSandbox({ createSeconds: 30, poolSeconds: 3, lifeSeconds });

  describeBackend("keeps the contract", "vm", () => makeVmLab(lab));
});
