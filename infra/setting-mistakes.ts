import type { z } from "zod";
import { valueAt } from "./value-at.ts";

/** What is wrong with what was given, a sentence for each key; no value is quoted, since it may be a misplaced secret. */
export function mistakesOf(error: z.ZodError, given: unknown): readonly string[] {
  return error.issues.flatMap((issue) => mistakesOfOne(issue, given));
}

function mistakesOfOne(issue: z.core.$ZodIssue, given: unknown): readonly string[] {
  const where = issue.path.join(".");
  if (issue.code === "unrecognized_keys")
    return issue.keys.map((key) => `${where === "" ? key : `${where}.${key}`}: there is no such key`);
  const found = valueAt(given, issue.path);
  if (issue.code === "invalid_key") {
    const [reason] = issue.issues;
    return [`${where}: ${reason?.message ?? issue.message}`];
  }
  if (found === undefined) return [`${where}: it is required`];
  if (issue.code === "invalid_type") return [`${where}: it has to be ${nameOf(issue.expected)}`];
  return [`${where}: ${issue.message}`];
}

/** For who writes YAML. */
function nameOf(expected: string): string {
  switch (expected) {
    case "string":
      return "text; put it in quotes";
    case "int":
    case "number":
      return "a whole number";
    case "boolean":
      return "true or false";
    case "array":
      return "a list";
    default:
      return "a map of keys and values";
  }
}
