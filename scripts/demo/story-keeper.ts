import { createWakeup } from "../../controller/platform/wakeup.ts";
import type { Story } from "./story.ts";

/** The story as it goes on. */
export type StoryKeeper = {
  get(): Story;
  change(next: (story: Story) => Story): void;
  /** Resolves as soon as the story fits; rejects with the signal's reason. */
  until(fits: (story: Story) => boolean, signal: AbortSignal): Promise<void>;
};

/** `show` hears of each change. */
export function createStoryKeeper(begin: Story, show: (story: Story) => void): StoryKeeper {
  const changed = createWakeup();
  let story = begin;
  return {
    get: () => story,
    change: (next) => {
      story = next(story);
      show(story);
      changed.wake();
    },
    until: async (fits, signal) => {
      while (!fits(story)) await changed.next(signal);
    },
  };
}
