import { z } from "zod";
import { parse, parseDocument } from "yaml";

/** What the bootstrap needs to know of a task's workflow: its only job, as Gitea sends it. */
export type JobOutline = {
  readonly runsOn: readonly string[];
  /** How many steps the job has; their ids count from 0. */
  readonly steps: number;
};

const scalar = z.union([z.string(), z.number(), z.boolean()]).transform(String);
const labels = z.union([scalar.transform((label) => [label]), z.array(scalar)]).catch([]);
const jobSchema = z.object({
  "runs-on": z.union([z.object({ labels }).transform((group) => group.labels), labels]).catch([]),
  steps: z.array(z.unknown()).catch([]),
});
const workflowSchema = z.object({ jobs: z.record(z.string(), z.unknown()) });

const unknownJob: JobOutline = { runsOn: [], steps: 0 };

/** Reads the only job of a workflow payload. What is not there or not readable counts as empty: gitea-runner says it better. */
export function jobOutline(payload: Uint8Array): JobOutline {
  const workflow = workflowSchema.safeParse(contentOf(Buffer.from(payload).toString("utf8")));
  const job = jobSchema.safeParse(workflow.success ? Object.values(workflow.data.jobs)[0] : undefined);
  return job.success ? { runsOn: job.data["runs-on"], steps: job.data.steps.length } : unknownJob;
}

/** Undefined for what is no YAML, and for YAML that means nothing: aliases without an anchor, or too many of them. */
function contentOf(text: string): unknown {
  try {
    return parse(text, { uniqueKeys: false, prettyErrors: false, logLevel: "error" });
  } catch {
    return undefined;
  }
}

/**
 * The labels for a `.runner` file that let gitea-runner take a job with this `runs-on` and run it on the host:
 * in the canonical form, because it rewrites the file otherwise. A name with a colon cannot be followed by a
 * schema; newer versions take it as it is.
 */
export function runnerLabels(runsOn: readonly string[]): readonly string[] {
  return [...new Set(runsOn)].map((label) => (label.includes(":") ? label : `${label}:host`));
}

/** The text of a `.runner` file: a registration that says nothing but where to call. The credentials in it are none. */
export function runnerFile(runner: {
  readonly name: string;
  readonly address: string;
  readonly labels: readonly string[];
}): string {
  const registration = {
    id: 1,
    uuid: "00000000-0000-0000-0000-000000000000",
    name: runner.name,
    token: "none",
    address: runner.address,
    labels: runner.labels,
    ephemeral: false,
  };
  return `${JSON.stringify(registration, undefined, 2)}\n`;
}

const configSchema = z.object({
  runner: z
    .object({ file: z.string().min(1).catch(".runner").default(".runner") })
    .nullish()
    .transform((runner) => runner?.file ?? ".runner"),
});

/** Which file gitea-runner will read, by its configuration (`runner.file`). Throws for what is no YAML. */
export function runnerFileName(config: string): string {
  const document = parseDocument(config, { uniqueKeys: false });
  const [fault] = document.errors;
  if (fault !== undefined) throw new Error("it is not YAML", { cause: fault });
  return configSchema.parse(document.toJS() ?? {}).runner;
}
