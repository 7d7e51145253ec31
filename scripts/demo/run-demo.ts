import { randomBytes } from "node:crypto";
import type { Clock } from "../../controller/platform/clock.ts";
import { abortable } from "../../controller/platform/signal.ts";
import type { Report } from "../peers/report.ts";
import type { ControllerLine } from "../quick-start/controller-process.ts";
import { filesOf } from "./example.ts";
import type { DemoOptions } from "./options.ts";
import { openGivenPlace, openOwnPlace, type Place } from "./place.ts";
import { pushAndFollow } from "./push-and-follow.ts";
import type { Screen } from "./screen.ts";
import { stamp } from "./stamp.ts";
import { stillUp } from "./stay-up.ts";
import { beginStory, hearLine, type Story } from "./story.ts";
import { createStoryKeeper } from "./story-keeper.ts";
import { isSuccess, sumUp } from "./sum-up.ts";
import { tellResult } from "./tell-result.ts";
import { explain } from "./user-error.ts";

export type DemoDependencies = {
  readonly screen: Screen;
  readonly report: Report;
  readonly clock: Clock;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Once it is aborted, whatever is being ended is killed instead. */
  readonly hurry: AbortSignal;
};

const tidyDeadlineMs = 60_000;

/**
 * The whole way of a push through real programs. Resolves to whether all went well: Gitea says that every job was
 * a success, and what was made is gone. Tells what went wrong on the screen instead of rejecting; that the signal
 * stopped it is nothing wrong. Nothing is left running in any case.
 */
export async function runDemo(
  options: DemoOptions,
  { screen, report, clock, environment, hurry }: DemoDependencies,
  signal: AbortSignal,
): Promise<boolean> {
  const { say } = screen;
  const begun = clock.now();
  const keeper = createStoryKeeper(beginStory(begun), screen.show);
  const secret = randomBytes(12).toString("hex");
  let place: Place | undefined;
  let failed = false;
  const fail = (what: string, error: unknown) => {
    screen.close();
    failed = true;
    if (!(signal.aborted && error === signal.reason)) say(`\n${what}: ${explain(error)}`);
    else if (place === undefined) say("\nStopped before anything was pushed; nothing is left");
  };
  try {
    const files = await filesOf(options.workload);
    const opening = {
      keep: options.keep,
      report,
      say,
      onStep: (what: string) => {
        say(`${stamp(clock.now() - begun)}  ${what}`);
      },
      onControllerLine: (line: ControllerLine) => {
        keeper.change((story) => hearLine(story, line, clock.now()));
      },
      controller: ownVariables(environment),
      hurry,
    };
    const opened =
      options.gitea === undefined
        ? await openOwnPlace(opening, signal)
        : await openGivenPlace(options.gitea, opening, signal);
    place = opened;
    await unlessPartsFail(opened, signal, async (inner) => {
      const { address } = await pushAndFollow(opened, { files, secret }, { keeper, screen, clock }, inner);
      // What is not deleted by then is ended with the rest.
      const tidy = AbortSignal.timeout(tidyDeadlineMs);
      await keeper.until(allDeleted, AbortSignal.any([inner, tidy])).catch(() => inner.throwIfAborted());
      await tellResult(opened, keeper.get(), { secret, say }, inner);
      if (options.exit) return;
      for (const line of stillUp(opened, address)) say(line);
      await abortable(Promise.withResolvers<never>().promise, inner);
    });
  } catch (error) {
    fail("Failed", error);
  }
  screen.close();
  if (place === undefined) return false;
  say(`\nCleaning up${options.keep ? `, but for ${keptOf(place)}` : ""}`);
  try {
    const cleaned = await place.close();
    for (const problem of cleaned.problems) say(`  ${problem}`);
    const story = keeper.get();
    say(sumUp(story, cleaned, signal.aborted));
    return !failed && isSuccess(story) && cleaned.problems.length === 0;
  } catch (error) {
    fail("Cleaning up failed", error);
    return false;
  }
}

/** Does the work, and gives it up as soon as a part has ended by itself. */
async function unlessPartsFail(
  place: Place,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const over = new AbortController();
  const inner = AbortSignal.any([signal, over.signal]);
  const working = work(inner);
  try {
    await Promise.race([working, place.failure(inner)]);
  } finally {
    over.abort(new Error("a part has ended"));
    await working.catch(() => undefined);
  }
}

/** What --keep leaves. */
function keptOf({ folder, api, repository, login }: Place): string {
  const { owner, name } = repository;
  return login === undefined ? `${folder}, and ${api.url}/${owner}/${name} with its runner` : folder;
}

function allDeleted({ tasks, deleted }: Story): boolean {
  const created = [...tasks.values()].reduce((sum, { attempts }) => sum + attempts, 0);
  return deleted.size >= created;
}

/** What the user may set for the controller. */
function ownVariables(environment: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const name of ["POD_CAPACITY", "VM_CAPACITY", "NODE_EXTRA_CA_CERTS"]) {
    const value = environment[name];
    if (value !== undefined && value !== "") variables[name] = value;
  }
  return variables;
}
