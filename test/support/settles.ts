import { settle } from "../fakes/fake-clock.ts";

const rounds = 200;

/** Resolves when `done` says so, without any time passing: for what needs nothing but that promises run. */
export async function settles(what: string, done: () => boolean): Promise<void> {
  for (let round = 0; !done(); round++) {
    if (round === rounds) throw new Error(`does not come by itself: ${what}`);
    await settle();
  }
}
