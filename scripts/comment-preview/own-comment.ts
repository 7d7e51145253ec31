/** A comment on a pull request. */
export type Comment = {
  readonly id: number;
  /** Nobody where the account is gone. */
  readonly author: number | undefined;
  readonly body: string;
};

/**
 * The comment to edit: of this author, and with the marker at its beginning. Somebody else's with the same marker is left alone,
 * though the job's token might edit it. The oldest, if there are several.
 */
export function ownComment(
  comments: readonly Comment[],
  of: { readonly author: number; readonly marker: string },
): Comment | undefined {
  const [first] = comments
    .filter(
      ({ author, body }) => author === of.author && (body === of.marker || body.startsWith(`${of.marker}\n`)),
    )
    .toSorted((one, other) => one.id - other.id);
  return first;
}
