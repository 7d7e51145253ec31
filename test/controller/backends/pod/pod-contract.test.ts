import { describeBackend } from "../../../support/backend-contract.ts";
import { makePodWorld } from "./pod-world.ts";

describeBackend("the Pod backend", "pod", () => makePodWorld());
