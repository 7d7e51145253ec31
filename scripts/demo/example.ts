import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { describeError } from "../../controller/platform/errors.ts";
import type { DemoOptions } from "./options.ts";
import { UserError } from "./user-error.ts";

/** What is pushed, by path. */
export type Files = Readonly<Record<string, string>>;

/** The secret that the example's repository gets: its name is in the workflow, its value nowhere but in Gitea. */
export const secretName = "DEMO_PASSWORD";

/** The files to push. Rejects with what is wrong with a file of the user's. */
export async function filesOf(workload: DemoOptions["workload"]): Promise<Files> {
  switch (workload.kind) {
    case "example":
      return await exampleFiles();
    case "many":
      return { ".gitea/workflows/many.yml": manyJobs(workload.jobs) };
    case "file":
      try {
        return { ".gitea/workflows/demo.yml": await readFile(workload.file, "utf8") };
      } catch (error) {
        throw new UserError(`--workflow ${workload.file} cannot be read: ${describeError(error)}`, {
          cause: error,
        });
      }
    default:
      return workload satisfies never;
  }
}

/** A workflow of independent jobs, in turns for both backends. */
export function manyJobs(count: number): string {
  const digits = String(count).length;
  const jobs = Array.from({ length: count }, (_, index) => {
    const number = String(index + 1).padStart(digits, "0");
    const backend = index % 2 === 0 ? "pod" : "vm";
    return [
      `  job-${number}:`,
      `    runs-on: [self-hosted, ${backend}]`,
      "    steps:",
      `      - run: echo "job ${index + 1} of ${count} on ${backend}"`,
    ].join("\n");
  });
  return ["name: many", "on: [push]", "jobs:", ...jobs, ""].join("\n");
}

/** The files of the example repository. */
async function exampleFiles(): Promise<Files> {
  const folder = path.join(import.meta.dirname, "example");
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  const texts = files.map(
    async (file) => [path.relative(folder, file), await readFile(file, "utf8")] as const,
  );
  return Object.fromEntries(await Promise.all(texts));
}
