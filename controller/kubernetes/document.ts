/** What is read of every object of the API, whatever its kind. */
export type ObjectMeta = { readonly name: string; readonly uid: string; readonly resourceVersion: string };

/** "" for what is not there. */
export function metaOf(document: unknown): ObjectMeta {
  const metadata = fieldOf(document, "metadata");
  const text = (name: string) => {
    const value = fieldOf(metadata, name);
    return typeof value === "string" ? value : "";
  };
  return { name: text("name"), uid: text("uid"), resourceVersion: text("resourceVersion") };
}

/** Undefined if there is none, or nothing that could have one. */
export function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

/** An object as it is kept, beside what is needed to know it again. */
export type Seen = ObjectMeta & { readonly document: unknown };

/** `keep` makes less of it, for memory's sake. */
export function seenOf(document: unknown, keep: (document: unknown) => unknown): Seen {
  return { ...metaOf(document), document: keep(document) };
}
