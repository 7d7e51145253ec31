/**
 * How many calls of one assignment may send a large body at once: a bootstrap has one for logs and one for states
 * under way, and what it has given up may still be there.
 */
const atOnce = 4;

/** Who may send a large body now. A call's body is in memory before anything else is known of the call. */
export type LargeBodies = {
  /** Takes a place, to be given back by the returned function; undefined if there is none. */
  take(assignmentId: string): (() => void) | undefined;
};

export function createLargeBodies(): LargeBodies {
  const taken = new Map<string, number>();
  return {
    take: (id) => {
      const count = taken.get(id) ?? 0;
      if (count >= atOnce) return undefined;
      taken.set(id, count + 1);
      return () => {
        const left = (taken.get(id) ?? 1) - 1;
        if (left === 0) taken.delete(id);
        else taken.set(id, left);
      };
    },
  };
}
