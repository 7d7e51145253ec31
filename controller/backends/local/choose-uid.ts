import { readFile } from "node:fs/promises";
import type { BackendKind } from "../../assignment/backend-kind.ts";
import type { Random } from "../../platform/backoff.ts";

/**
 * The uids of executors, and the gids of the same numbers. Debian and Red Hat give them to nobody: above their
 * users (60000), below systemd's (61184).
 */
export const uidRange = { first: 60600, last: 60999 } as const;

/** Each kind has half of the range: the two backends of one controller choose without asking each other. */
export function uidsOf(kind: BackendKind): readonly number[] {
  const half = (uidRange.last - uidRange.first + 1) / 2;
  const first = kind === "pod" ? uidRange.first : uidRange.first + half;
  return Array.from({ length: half }, (_, index) => first + index);
}

/** A uid that is not taken, any of them, so that two controllers on one machine seldom want the same; undefined if none is left. */
export function chooseUid(
  uids: readonly number[],
  taken: ReadonlySet<number>,
  random: Random,
): number | undefined {
  const left = uids.filter((uid) => !taken.has(uid));
  return left[Math.floor(random() * left.length)];
}

/** The uids and gids that the machine has given to somebody, from files in the form of /etc/passwd. */
export async function assignedIds(files = ["/etc/passwd", "/etc/group"]): Promise<readonly number[]> {
  const texts = await Promise.all(files.map(async (file) => await readFile(file, "utf8")));
  return texts.flatMap((text) =>
    text
      .split("\n")
      .map((line) => Number.parseInt(line.split(":")[2] ?? "", 10))
      .filter((id) => Number.isInteger(id)),
  );
}
