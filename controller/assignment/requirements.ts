import type { BackendKind } from "./backend-kind.ts";

/** The labels of `runs-on` that name a backend. `vm-dev` is the VM backend of a development stack. */
const backendOfLabel: ReadonlyMap<string, BackendKind> = new Map([
  ["pod", "pod"],
  ["vm", "vm"],
  ["vm-dev", "vm"],
]);

export type Requirement =
  { readonly ok: true; readonly backend: BackendKind } | { readonly ok: false; readonly reason: string };

/**
 * Which backend a job's `runs-on` asks for: `self-hosted` and exactly one backend, in any order, further labels
 * aside. Gitea hands a job to us when all of `runs-on` is among our labels, so `[self-hosted]`, `[pod, vm]` and
 * an empty list arrive as well; the reason then says what was asked.
 */
export function requirementOf(runsOn: readonly string[]): Requirement {
  const asked = `runs-on: [${runsOn.join(", ")}]`;
  if (!runsOn.includes("self-hosted")) return { ok: false, reason: `${asked} lacks "self-hosted"` };
  const [label, second] = new Set(runsOn.filter((each) => backendOfLabel.has(each)));
  const backend = label === undefined ? undefined : backendOfLabel.get(label);
  if (backend === undefined) return { ok: false, reason: `${asked} names no backend` };
  if (second !== undefined) return { ok: false, reason: `${asked} names more than one backend` };
  return { ok: true, backend };
}

/** The bare names that are declared to Gitea (the `name:host` form belongs into a `.runner` file only). */
export function declaredLabels(backends: readonly BackendKind[], vmLabel: string): readonly string[] {
  return ["self-hosted", ...backends.map((backend) => (backend === "vm" ? vmLabel : backend))];
}

/** The `runs-on` values that a person may write, for the message to one who wrote another. */
export function offeredRunsOn(backends: readonly BackendKind[], vmLabel: string): string {
  const [common, ...own] = declaredLabels(backends, vmLabel);
  return own.map((label) => `[${common}, ${label}]`).join(" or ");
}
