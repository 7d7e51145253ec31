/**
 * Runs two things at once until each has ended. The first that fails stops the other, by its signal, and its error is what this
 * rejects with; an abort of `signal` stops both.
 */
export async function both<A, B>(
  first: (signal: AbortSignal) => Promise<A>,
  second: (signal: AbortSignal) => Promise<B>,
  signal: AbortSignal,
): Promise<readonly [A, B]> {
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const attend = async <T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    try {
      return await run(either);
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  };
  const [a, b] = [attend(first), attend(second)];
  await Promise.allSettled([a, b]);
  failed.signal.throwIfAborted();
  return [await a, await b];
}
