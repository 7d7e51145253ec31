import type { Texts } from "../../../controller/assignment/executor-metadata.ts";

/** What its pool's controller has written of a sandbox's VM. */
export type Vm =
  | { readonly kind: "none" }
  /** A place, and no address yet. */
  | { readonly kind: "scheduled" }
  /** An address, and not ready. */
  | { readonly kind: "unready" }
  | { readonly kind: "ready" }
  | { readonly kind: "ended" }
  | { readonly kind: "failed"; readonly message: string }
  | { readonly kind: "task failed" };

export type StoredSandbox = {
  readonly id: string;
  readonly pool: string;
  readonly createdAt: number;
  readonly expiresAt?: number;
  readonly entrypoint?: readonly string[];
  readonly environment: Texts;
  readonly extensions: Texts;
  readonly labels: Texts;
  readonly vm: Vm;
  /** Holds a place in its pool; also after its VM has ended. */
  readonly hasPlace: boolean;
  /** The pool is full, and says so (`PoolAllocationPending`). */
  readonly isFull: boolean;
  /** By a finalizer. */
  readonly isHeld: boolean;
  readonly isDeleting: boolean;
  /** What the server says instead of what it should. */
  readonly says?: Status;
};

type Status = { readonly state: string; readonly reason?: string; readonly message?: string };

const words: Readonly<Record<Vm["kind"], readonly [state: string, reason: string]>> = {
  none: ["Pending", "BATCHSANDBOX_PENDING"],
  scheduled: ["Pending", "POD_SCHEDULED"],
  unready: ["Allocated", "IP_ASSIGNED"],
  ready: ["Running", "RUNNING"],
  ended: ["Pending", "CREATING"],
  failed: ["Failed", "FAILED"],
  "task failed": ["Failed", "TASK_FAILED"],
};

/** `isOld`: of a controller that writes the phase `Pending` at once. */
export function statusOf({ vm, isDeleting, says }: StoredSandbox, isOld = false): Status {
  if (says !== undefined) return says;
  if (isDeleting) return { state: "Stopping", reason: "DELETING" };
  const [state, reason] = words[isOld && vm.kind === "none" ? "ended" : vm.kind];
  return { state, reason, ...(vm.kind === "failed" ? { message: vm.message } : {}) };
}

const reserved = "opensandbox.io/";

/** Labels but the server's own. */
export function metadataOf({ labels }: StoredSandbox): Texts {
  return Object.fromEntries(Object.entries(labels).filter(([key]) => !key.startsWith(reserved)));
}

/** As GET, PATCH and a list show it. */
export function documentOf(sandbox: StoredSandbox, isOld = false): object {
  const { id, pool, createdAt, expiresAt, extensions, hasPlace, isDeleting } = sandbox;
  const since = `${new Date(createdAt).toISOString().slice(0, 19)}Z`;
  const allocation = { mode: "pool", poolRef: pool, state: "allocated" };
  return {
    id,
    image: { uri: "unknown" },
    status: { ...statusOf(sandbox, isOld), lastTransitionAt: since },
    metadata: metadataOf(sandbox),
    entrypoint: [],
    extensions,
    ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() }),
    createdAt: since,
    ...(hasPlace && !isDeleting ? { allocation } : {}),
  };
}

/** As the answer to its POST shows it: `Allocated` is called Running, and nobody has a place. */
export function createdDocumentOf(sandbox: StoredSandbox): object {
  const { id, createdAt, expiresAt, extensions, entrypoint } = sandbox;
  const { reason } = statusOf(sandbox);
  return {
    id,
    status: { state: "Running", ...(reason === undefined ? {} : { reason }) },
    metadata: metadataOf(sandbox),
    extensions,
    ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() }),
    createdAt: new Date(createdAt).toISOString().replace("Z", "123Z"),
    ...(entrypoint === undefined ? {} : { entrypoint }),
  };
}
