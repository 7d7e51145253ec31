/** The same with one more field in every object, as a newer version may write it. */
export function withMore(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(withMore);
  if (typeof json !== "object" || json === null) return json;
  const fields = Object.entries(json).map(([key, field]) => [key, withMore(field)]);
  return { ...Object.fromEntries(fields), ...more };
}

/** Whatever has this in it a newer version has written. */
export const more = { later: { by: "a newer version" } } as const;
