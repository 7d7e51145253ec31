import type { BackendKind } from "../../assignment/backend-kind.ts";
import type { Random } from "../../platform/backoff.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Logger } from "../../platform/logger.ts";
import type { LocalIdentity } from "./local-identity.ts";

export type LocalBackendOptions = {
  /** Which label's jobs it runs. Two backends of different kinds may share one folder. */
  readonly kind: BackendKind;
  readonly owner: string;
  readonly trustDomain: string;
  /** The state folder; executors lie in `executors` below it. */
  readonly folder: string;
  readonly identity: LocalIdentity;
  /** What an executor runs: `node` with the bootstrap as its first argument. Other users must be able to read both. */
  readonly program: { readonly node: string; readonly bootstrap: string; readonly args?: readonly string[] };
  readonly giteaRunnerBinary: string;
  /** An executor that is older is killed, for the reason `deadline`; so is one whose own deadline has passed. */
  readonly timeoutSeconds: number;
  /** From SIGTERM to SIGKILL; default 5 s. */
  readonly killGraceMs?: number;
  /** Gives each executor a uid of its own. Needs root, and is the default for root. */
  readonly ownUids?: boolean;
  /** The controller's `NODE_ENV`. */
  readonly nodeEnv: string | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};
