import type { KubernetesApi } from "../../kubernetes/kubernetes-api.ts";
import type { Random } from "../../platform/backoff.ts";
import type { Clock, SteadyClock } from "../../platform/clock.ts";
import type { Logger } from "../../platform/logger.ts";
import type { PodPatch, PodSettings } from "./pod-settings.ts";
import type { EntrySettings } from "./pod-entry.ts";

export type PodBackendOptions = {
  readonly api: KubernetesApi;
  /** Marks everything as ours. */
  readonly owner: string;
  readonly trustDomain: string;
  readonly pods: PodSettings & { readonly patch?: PodPatch };
  readonly entries: EntrySettings;
  readonly clock: Clock;
  /** For how long something took; the machine's own unless given. */
  readonly steady?: SteadyClock;
  readonly random: Random;
  readonly log: Logger;
};
