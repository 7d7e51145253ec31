/**
 * Does several things at once and waits for all of them. When one fails the others are aborted, and have ended when
 * this rejects with the first failure: whoever cleans up then has nobody beside him who goes on.
 */
export async function together(
  signal: AbortSignal,
  ...tasks: readonly ((signal: AbortSignal) => Promise<void>)[]
): Promise<void> {
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const failures: unknown[] = [];
  const guarded = tasks.map(async (task) => {
    try {
      await task(either);
    } catch (error) {
      failures.push(error);
      failed.abort(error);
    }
  });
  await Promise.all(guarded);
  if (failures.length > 0) throw failures[0];
}
