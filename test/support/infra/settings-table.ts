import { z } from "zod";
import { settingsSchema } from "../../../infra/settings.ts";

export type SettingsRow = { readonly key: string; readonly usual: string; readonly what: string };

/** Every key that a stack may set, with its default (empty where it is required or absent) and what it is for. */
export function settingsTable(): readonly SettingsRow[] {
  return rowsOf("", settingsSchema);
}

function rowsOf(prefix: string, schema: z.ZodType): readonly SettingsRow[] {
  const inner = withoutWrapping(schema);
  if (!(inner instanceof z.ZodObject)) return [rowOf(prefix, schema)];
  const fields: Readonly<Record<string, z.ZodType>> = inner.shape;
  // What Kubernetes defines is one key for us.
  if (Object.keys(fields).every((name) => name === "requests" || name === "limits"))
    return [rowOf(prefix, schema)];
  return Object.entries(fields).flatMap(([name, field]) =>
    rowsOf(prefix === "" ? name : `${prefix}.${name}`, field),
  );
}

function rowOf(key: string, schema: z.ZodType): SettingsRow {
  const usual = schema.safeParse(undefined).data;
  const shown = usual === undefined ? "" : typeof usual === "string" ? usual : JSON.stringify(usual);
  return { key, usual: shown, what: schema.description ?? "" };
}

function withoutWrapping(schema: z.ZodType): z.ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault)
    return withoutWrapping(schema.unwrap() as z.ZodType);
  if (schema instanceof z.ZodPipe) return withoutWrapping(schema.in as z.ZodType);
  return schema;
}
