import { runtime, type Input } from "@pulumi/pulumi";
import { MockMonitor } from "@pulumi/pulumi/runtime/mocks.js";
import { platform } from "../../../infra/platform.ts";
import { readSettings, type SecretName } from "../../../infra/read-settings.ts";

export type Registered = {
  readonly type: string;
  readonly name: string;
  readonly inputs: Readonly<Record<string, unknown>>;
};

const secretMark = "4dabf18193072939515e22adb298388d";

// It says that it knows of these hooks, and lacks what registers one: the program would wait for ever.
Object.assign(MockMonitor.prototype, {
  registerErrorHook: (_hook: unknown, done: (error: null, answer: object) => void) => done(null, {}),
});

/** Runs the program for a stack without an engine: all custom resources that it registers, secrets marked as they go. */
export async function registeredBy(
  given: Readonly<Record<string, unknown>>,
  secrets: Readonly<Partial<Record<SecretName, Input<string>>>>,
): Promise<readonly Registered[]> {
  const registered: Registered[] = [];
  await runtime.setMocks(
    {
      call: ({ inputs }) => ({ ...inputs }),
      newResource: ({ type, name, inputs, custom, id = "" }) => {
        // One with an id is only read.
        if (custom === true && id === "") registered.push({ type, name, inputs });
        return { id: `${name}-id`, state: { ...inputs, digest: `sha256:${"b".repeat(64)}` } };
      },
    },
    "gitea-dynamic-runner",
    "test",
  );
  platform(readSettings(given, new Set(Object.keys(secrets))), secrets);
  await runtime.disconnect();
  return registered;
}

/** The one resource of that type and name. */
export function one(
  all: readonly Registered[],
  type: string,
  name?: string,
): Readonly<Record<string, unknown>> {
  const found = all.filter(
    (resource) => resource.type === type && (name === undefined || resource.name === name),
  );
  if (found.length !== 1 || found[0] === undefined)
    throw new Error(
      `${found.length} of ${type} ${name ?? ""}: ${all.map((each) => `${each.type} ${each.name}`).join(", ")}`,
    );
  return found[0].inputs;
}

/** The value as text, with each secret in it replaced by `[secret]`. */
export function withoutSecrets(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && secretMark in inner ? "[secret]" : inner,
  );
}
