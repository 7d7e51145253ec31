import { type SvidSource, SvidUnavailableError } from "./spiffe/x509-source.ts";

/** A source for whoever is made before our own SVID is there, and asks for it only after. */
export type LateSource = SvidSource & {
  /** From now on it is that one. */
  open(source: SvidSource): void;
};

export function createLateSource(): LateSource {
  const waiting = new Map<object, (source: SvidSource) => void>();
  let opened: SvidSource | undefined;
  return {
    open: (source) => {
      opened = source;
      for (const follow of waiting.values()) follow(source);
      waiting.clear();
    },
    current: () => {
      if (opened === undefined) throw new SvidUnavailableError("our own X.509-SVID has not come yet");
      return opened.current();
    },
    onUpdate: (listener) => {
      if (opened !== undefined) return opened.onUpdate(listener);
      const key = {};
      let stop = (): void => void waiting.delete(key);
      waiting.set(key, (source) => {
        stop = source.onUpdate(listener);
      });
      return () => stop();
    },
  };
}
