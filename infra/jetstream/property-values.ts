/** Properties of a resource as the engine sends them: JSON, in which secrets and what is not known yet are marked. */
export type Properties = Readonly<Record<string, unknown>>;

// The wire format's marks, https://github.com/pulumi/pulumi/blob/master/sdk/go/common/resource/plugin/rpc.go
const signatureKey = "4dabf18193072939515e22adb298388d";
const secretSignature = "1b47061264138c4ac30d75fd1eb44270";
const outputSignature = "d0e6a833031e9bbcd3f4e8bde6ca49a4";
const unknownMark = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

/** The value itself, without marks. What is not known yet stays as the mark that says so. */
export function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!isRecord(value)) return value;
  switch (value[signatureKey]) {
    case secretSignature:
      return plain(value["value"]);
    case outputSignature:
      return value["value"] === undefined ? unknownMark : plain(value["value"]);
    default:
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
  }
}

/** The same of all properties. */
export function plainProperties(properties: Properties): Properties {
  return given(Object.fromEntries(Object.entries(properties).map(([key, value]) => [key, plain(value)])));
}

/** Without those that the engine or the program leaves out by a null. */
export function given(properties: Properties): Properties {
  return Object.fromEntries(
    Object.entries(properties).filter(([, value]) => value !== null && value !== undefined),
  );
}

/** Whether any part of a value is not known yet, as in the preview of something that depends on what is to be made. */
export function isUnknown(value: unknown): boolean {
  if (value === unknownMark) return true;
  if (Array.isArray(value)) return value.some(isUnknown);
  return isRecord(value) && Object.values(value).some(isUnknown);
}

/** The names of the properties in which a secret is. */
export function secretNames(properties: Properties): ReadonlySet<string> {
  const secret = Object.entries(properties).filter(([, value]) => hasSecret(value));
  return new Set(secret.map(([name]) => name));
}

/** Properties with those of these names marked as secret, so that they are encrypted in the state and shown nowhere. */
export function withSecrets(properties: Properties, names: ReadonlySet<string>): Properties {
  const marked = (name: string, value: unknown): unknown =>
    names.has(name) ? { [signatureKey]: secretSignature, value } : value;
  return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, marked(name, value)]));
}

function hasSecret(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasSecret);
  if (!isRecord(value)) return false;
  return value[signatureKey] === secretSignature || Object.values(value).some(hasSecret);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
