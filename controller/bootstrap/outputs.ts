/** A job's outputs on their way. The first value of an output counts, as in Gitea. */
export type Outputs = {
  /** Names of all that were ever reported. */
  readonly known: ReadonlySet<string>;
  /** Those that Gitea has not confirmed. */
  readonly waiting: ReadonlyMap<string, WaitingOutput>;
};

type WaitingOutput = {
  readonly value: string;
  /** Gitea has had it in a call that it answered, and did not confirm it: too long, or trouble with its database. */
  readonly passedOver: boolean;
};

export const noOutputs: Outputs = { known: new Set(), waiting: new Map() };

/** Takes in what gitea-runner reports. */
export function withOutputs(
  { known, waiting }: Outputs,
  reported: Readonly<Record<string, string>>,
): Outputs {
  const fresh = Object.entries(reported).filter(([name]) => !known.has(name));
  return {
    known: new Set([...known, ...fresh.map(([name]) => name)]),
    waiting: new Map([
      ...waiting,
      ...fresh.map(([name, value]) => [name, { value, passedOver: false }] as const),
    ]),
  };
}

/**
 * What goes into the next call: not more than `maxBytes`, but one at least. Those that Gitea has passed over go once
 * more, with the result. `isAll`: none is left that Gitea has not had.
 */
export function nextOutputs(
  { waiting }: Outputs,
  maxBytes: number,
  withResult: boolean,
): { readonly outputs: Readonly<Record<string, string>>; readonly isAll: boolean } {
  const fresh = [...waiting].filter(([, { passedOver }]) => !passedOver);
  const again = withResult ? [...waiting].filter(([, { passedOver }]) => passedOver) : [];
  let bytes = 0;
  const chosen = [...fresh, ...again].filter(([name, { value }], position) => {
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value);
    return bytes <= maxBytes || position === 0;
  });
  const outputs = Object.fromEntries(chosen.map(([name, { value }]) => [name, value]));
  return { outputs, isAll: fresh.every(([name]) => Object.hasOwn(outputs, name)) };
}

/** Takes in the answer to a call that had `sent`: the names that Gitea confirms. */
export function withConfirmed(
  { known, waiting }: Outputs,
  sent: Readonly<Record<string, string>>,
  confirmed: readonly string[],
): Outputs {
  const taken = new Set(confirmed);
  const rest = [...waiting]
    .filter(([name]) => !taken.has(name))
    .map(
      ([name, output]) =>
        [name, Object.hasOwn(sent, name) ? { ...output, passedOver: true } : output] as const,
    );
  return { known, waiting: new Map(rest) };
}
