/** What stands there in what was given; undefined where there is nothing. */
export function valueAt(given: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce(
    (value, key) => (isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined),
    given,
  );
}

function isRecord(value: unknown): value is Readonly<Record<PropertyKey, unknown>> {
  return typeof value === "object" && value !== null;
}
