import { describeBackend } from "../../../support/backend-contract.ts";
import { canGiveUids } from "./if-root.ts";
import { makeLocalWorld } from "./local-world.ts";

describeBackend("the local backend, all executors under our own uid", "pod", () =>
  makeLocalWorld({ ownUids: false }),
);

if (canGiveUids("each executor of the local backend has a uid of its own")) {
  describeBackend("the local backend, each executor under a uid of its own", "vm", () =>
    makeLocalWorld({ kind: "vm", ownUids: true }),
  );
}
