/** Where executors run. A backend's name is also the last part of its subject and the name of its consumer. */
export const backendKinds = ["pod", "vm"] as const;

export type BackendKind = (typeof backendKinds)[number];

export function isBackendKind(text: string): text is BackendKind {
  return backendKinds.some((kind) => kind === text);
}
