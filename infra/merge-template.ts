type Json = Readonly<Record<string, unknown>>;

/**
 * A Pod's spec with what a stack wants to have of it besides. Objects are merged; of lists whose items have names, items of the
 * same name are, and others are added; any other value of the stack's replaces ours.
 */
export function mergeTemplate(ours: Json, theirs: Json): Json {
  const merged: Record<string, unknown> = { ...ours };
  for (const [key, value] of Object.entries(theirs)) merged[key] = mergeValue(merged[key], value);
  return merged;
}

function mergeValue(ours: unknown, theirs: unknown): unknown {
  if (isObject(ours) && isObject(theirs)) return mergeTemplate(ours, theirs);
  if (!areNamed(ours) || !areNamed(theirs)) return theirs;
  const given = new Map(theirs.map((item) => [item.name, item]));
  const kept = ours.map((item) => mergeTemplate(item, given.get(item.name) ?? {}));
  const names = new Set(ours.map(({ name }) => name));
  return [...kept, ...theirs.filter(({ name }) => !names.has(name))];
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function areNamed(value: unknown): value is readonly (Json & { readonly name: string })[] {
  return Array.isArray(value) && value.every((item) => isObject(item) && typeof item["name"] === "string");
}
