type Task<T> = (signal: AbortSignal) => Promise<T>;

/**
 * Does several things at once and resolves to their results. When one fails the others are aborted, and have ended
 * when this rejects with the first failure: whoever cleans up then has nobody beside him who goes on.
 */
export async function together<T extends readonly unknown[]>(
  signal: AbortSignal,
  ...tasks: { readonly [index in keyof T]: Task<T[index]> }
): Promise<T> {
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const failures: unknown[] = [];
  const guarded = tasks.map(async (task) => {
    try {
      return await task(either);
    } catch (error) {
      failures.push(error);
      failed.abort(error);
      return undefined;
    }
  });
  const results = await Promise.all(guarded);
  if (failures.length > 0) throw failures[0];
  return results as unknown as T;
}
