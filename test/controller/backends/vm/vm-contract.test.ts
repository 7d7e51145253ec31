import { describeBackend } from "../../../support/backend-contract.ts";
import { makeVmWorld } from "./vm-world.ts";

describeBackend("the VM backend", "vm", () => makeVmWorld());
