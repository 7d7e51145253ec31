import assert from "node:assert/strict";
import { readSettings, SettingsError } from "../../../infra/read-settings.ts";
import { allSecrets } from "./stack-settings.ts";

/** What a stack is told is wrong with its configuration, a sentence each; nothing where it is usable. */
export function settingsMistakes(
  given: Record<string, unknown>,
  secrets: ReadonlySet<string> = allSecrets,
): readonly string[] {
  try {
    readSettings(given, secrets);
  } catch (error) {
    assert.ok(error instanceof SettingsError, String(error));
    return error.message
      .split("\n")
      .slice(1)
      .map((line) => line.trim());
  }
  return [];
}
