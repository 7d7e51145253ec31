import type { Clock } from "../../controller/platform/clock.ts";
import { isAbortOf } from "../../controller/platform/signal.ts";
import { awaitRun } from "../peers/gitea-api/await-run.ts";
import { askGiteaForText } from "../peers/gitea-api/client.ts";
import { pushFiles, repositoryPath } from "../peers/gitea-api/repository.ts";
import { endOfLog } from "../quick-start/parts.ts";
import { secretName, type Files } from "./example.ts";
import { followRun } from "./follow-run.ts";
import type { Place } from "./place.ts";
import { readJobs, readTasks } from "./read-run.ts";
import type { Screen } from "./screen.ts";
import { push } from "./story.ts";
import type { StoryKeeper } from "./story-keeper.ts";
import { stamp } from "./stamp.ts";
import { explain, UserError } from "./user-error.ts";

export type Pushed = {
  /** Of the run's page. */
  readonly address: string;
};

const runDeadlineMs = 60_000;

/** Puts the secret into the repository, pushes, and shows the run until Gitea says that every job is over. */
export async function pushAndFollow(
  place: Place,
  what: { readonly files: Files; readonly secret: string },
  { keeper, screen, clock }: { readonly keeper: StoryKeeper; readonly screen: Screen; readonly clock: Clock },
  signal: AbortSignal,
): Promise<Pushed> {
  const { api, repository } = place;
  const path = `${repositoryPath(repository)}/actions/secrets/${secretName}`;
  await askGiteaForText(api, { method: "PUT", path, body: { data: what.secret } }, signal);
  screen.say("\nJobs");
  keeper.change((story) => push(story, clock.now()));
  const { sha } = await pushFiles(api, repository, { files: what.files, message: "Say hello" }, signal);
  const since = () => stamp(clock.now() - keeper.get().pushed);
  const name = `${repository.owner}/${repository.name}`;
  screen.say(`${since()}  pushed ${sha.slice(0, 10)} to ${api.url}/${name}`);
  const run = await awaitRun(api, repository, { sha, deadlineMs: runDeadlineMs }, signal).catch(
    (error: unknown) => {
      if (isAbortOf(signal, error)) throw error;
      throw new UserError(
        `the push started no run (${explain(error)}): is the workflow valid, and for "on: push"?`,
      );
    },
  );
  const read = {
    jobs: (inner: AbortSignal) => readJobs(api, repository, run.id, inner),
    tasks: (inner: AbortSignal) => readTasks(api, repository, inner),
  };
  try {
    await followRun(keeper, read, clock, signal);
  } catch (error) {
    if (isAbortOf(signal, error)) throw error;
    const log = await endOfLog(place.controllerLog);
    throw new UserError(`${explain(error)}; the controller: ${log}`, { cause: error });
  }
  screen.settle(keeper.get());
  return { address: `${api.url}/${name}/actions/runs/${run.id}` };
}
