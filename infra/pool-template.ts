import { z } from "zod";

/** What a stack may not say of a VM's Pod, and why. */
const refused: Readonly<Record<string, string>> = {
  restartPolicy: "restartPolicy has to be Never",
  runtimeClassName: "runtimeClassName stands in vm.pool.runtimeClass",
  nodeSelector: "nodeSelector stands in vm.pool.nodeSelector, which keeps the controller off these nodes",
  tolerations: "tolerations stand in vm.pool.tolerations",
  nodeName: "nodeName would pass by the runtime class, which may choose nodes",
  hostNetwork: "hostNetwork is the node's, and no policy holds there",
  hostPID: "hostPID is the node's",
  hostIPC: "hostIPC is the node's",
  automountServiceAccountToken:
    "automountServiceAccountToken has to be false: a job would have the token, mount one where it is used",
};

/** Of the container that a job comes to. */
const refusedOfExecutor: Readonly<Record<string, string>> = {
  image: "the executor's image stands in images",
  command: "the executor's command is what brings it a job",
  args: "the executor's arguments are what brings it a job",
  resources: "the executor's resources stand in vm.pool.resources",
  restartPolicy: "restartPolicy has to be Never",
};

const item = z.looseObject({ name: z.string().min(1) });
const items = z.array(item);

/** Lists that are merged by their items' names; any other list would take the place of ours. */
const merged = ["containers", "initContainers", "volumes"];

/**
 * Of a VM's Pod, besides what we say. A used VM that starts anew would be given to another job, and a Pod without the runtime
 * class is none of a VM, but privileged on its node.
 */
export const podSpec = z
  .record(z.string(), z.unknown())
  .superRefine((spec, context) => {
    for (const message of mistakesOf(spec)) context.addIssue({ code: "custom", message });
  })
  .default({});

function mistakesOf(spec: Readonly<Record<string, unknown>>): readonly string[] {
  const told = Object.keys(spec).flatMap((key) => refused[key] ?? []);
  const nulls = Object.entries(spec).flatMap(([key, value]) =>
    value === null && refused[key] === undefined ? [`${key} is null, leave it out`] : [],
  );
  const unnamed = merged
    .filter((key) => spec[key] !== undefined && spec[key] !== null && !items.safeParse(spec[key]).success)
    .map((key) => `${key} is no list of objects that have names`);
  const containers = items.safeParse(spec["containers"]).data ?? [];
  const executor = containers.filter(({ name }) => name === "executor");
  const overruled = executor.flatMap((given) =>
    Object.keys(given).flatMap((key) => refusedOfExecutor[key] ?? []),
  );
  return [...told, ...nulls, ...unnamed, ...overruled];
}
