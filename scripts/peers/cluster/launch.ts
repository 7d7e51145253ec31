import { join } from "node:path";
import { runCommand } from "../run-command.ts";
import { startServer } from "../server-process.ts";
import type { ComponentRecipe } from "./component.ts";
import type { Namespaces } from "./namespaces.ts";
import { systemEnvironment } from "./obstacle.ts";

export type InsideProgram = {
  /** Of a program in `programs`. */
  readonly name: string;
  readonly args: readonly string[];
  readonly environment?: NodeJS.ProcessEnv;
  readonly isReady: ComponentRecipe["isReady"];
};

/** How programs are started inside the namespaces. Each has a log of its own in the folder. */
export type Launch = {
  (program: InsideProgram): ComponentRecipe;
  /** Runs one to its end. */
  ask(name: string, args: readonly string[], signal: AbortSignal): Promise<string>;
};

const deadline = 30_000;

/** `programs`: their absolute paths, by name. */
export function createLaunch(
  namespaces: Namespaces,
  programs: Readonly<Record<string, string>>,
  folder: string,
  ourEnvironment: NodeJS.ProcessEnv,
): Launch {
  const environment = systemEnvironment(ourEnvironment);
  const inside = (name: string, args: readonly string[]) => {
    const program = programs[name];
    if (program === undefined) throw new Error(`no program is called ${name}`);
    return namespaces.enter(program, args);
  };
  const launch = ({ name, args, isReady, environment: more }: InsideProgram): ComponentRecipe => {
    const logFile = join(folder, `${name}.log`);
    return {
      name,
      logFile,
      launch: async () =>
        await startServer({
          ...inside(name, args),
          name,
          folder,
          environment: { ...environment, ...more },
          logFile,
        }),
      isReady,
    };
  };
  return Object.assign(launch, {
    ask: async (name: string, args: readonly string[], signal: AbortSignal) =>
      await runCommand({ ...inside(name, args), environment, deadline }, signal),
  });
}
