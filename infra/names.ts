import type { Settings } from "./settings.ts";

/** The names of everything that a stack makes, with its suffix where two stacks would meet. */
export type Names = ReturnType<typeof namesOf>;

/** The plain names are those of DNS, dashboards and manifests; a suffix is part of them or absent. */
export function namesOf({ suffix, spire, vm }: Pick<Settings, "suffix" | "spire" | "vm">) {
  const dashed = suffix === undefined ? "" : `-${suffix}`;
  const controller = `gitea-dynamic-runner${dashed}`;
  const namespace = controller;
  const facade = "runner-facade";
  const stream = `CI_RUNNER${suffix === undefined ? "" : `_${suffix.toUpperCase()}`}`;
  return {
    /** Of namespace, service account, Deployment; of objects without a namespace as well. */
    controller,
    namespace,
    executorNamespace: `gitea-actions${dashed}`,
    executorServiceAccount: "gitea-task-executor",
    stream,
    stateBucket: `${stream}_STATE`,
    eventStream: `${stream}_EVENTS`,
    subjectBase: `ci${dashed}.assignment`,
    facadeService: facade,
    facadeHost: `${facade}.${namespace}.svc`,
    facadePort: 8443,
    healthPort: 8080,
    controllerSpiffeId: `spiffe://${spire.trustDomain}/${controller}`,
    /** Registries remove what has no tag any more: no stack takes it off another's image. */
    imageTag: suffix ?? "latest",
    pool: vm === undefined ? undefined : { name: `ci-vm${dashed}`, namespace: vm.poolNamespace },
  } as const;
}
