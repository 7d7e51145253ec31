import { type Config, type Output, runtime } from "@pulumi/pulumi";
import { type SecretName, secretNames } from "./read-settings.ts";
import { secretMistakes } from "./secret-mistakes.ts";

/**
 * What a stack's file says, by key, as values, with the secrets apart: these stay Outputs, so that they end nowhere in
 * clear. A secret that is set in clear is taken as one all the same.
 */
export function givenSettings(config: Config): {
  readonly plain: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Partial<Record<SecretName, Output<string>>>>;
  /** What is wrong with secrets that are set. */
  readonly mistakes: readonly string[];
} {
  const prefix = `${config.name}:`;
  const keys = Object.keys(runtime.allConfig())
    .filter((key) => key.startsWith(prefix))
    .map((key) => key.slice(prefix.length));
  const plain = keys
    .filter((key) => !isSecret(key))
    .map((key) => [key, valueOf(config.require(key))] as const);
  const secrets = keys.filter(isSecret).map((key) => [key, config.requireSecret(key)] as const);
  const inClear = new Map(
    keys.filter(isSecret).map((key) => [key, runtime.getConfig(`${prefix}${key}`) ?? ""] as const),
  );
  return {
    plain: Object.fromEntries(plain),
    secrets: Object.fromEntries(secrets),
    mistakes: secretMistakes(inClear),
  };
}

function isSecret(key: string): key is SecretName {
  return secretNames.some((name) => name === key);
}

/** The engine hands over objects, numbers and booleans as JSON, and texts as they are. */
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
