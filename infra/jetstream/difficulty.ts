/** A change of one property that is more than an update. */
export type Difficulty = {
  readonly property: string;
  /** Whether the server can change it in place, or only a new object can have it. */
  readonly by: "update" | "replacement";
  /** Whether stored messages go: such a change is refused unless the resource allows it. */
  readonly losesData: boolean;
  readonly reason: string;
};

/** That a property changes which only a new object can have; nothing if it does not change. */
export function fixed<Inputs>(
  property: keyof Inputs & string,
  from: Inputs,
  to: Inputs,
  { reason, losesData }: Pick<Difficulty, "reason" | "losesData">,
): readonly Difficulty[] {
  return from[property] === to[property] ? [] : [{ property, by: "replacement", losesData, reason }];
}

/** That a limit becomes lower, where `none` stands for no limit; nothing if it does not. */
export function tighter<Property extends string>(
  property: Property,
  from: Readonly<Record<Property, number>>,
  to: Readonly<Record<Property, number>>,
  none: 0 | -1,
): readonly Difficulty[] {
  const [before, after] = [from[property], to[property]];
  if (after === none || (before !== none && after >= before)) return [];
  const reason = "the server drops what is above a lower limit";
  return [{ property, by: "update", losesData: true, reason }];
}
