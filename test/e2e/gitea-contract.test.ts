import { chmod } from "node:fs/promises";
import path from "node:path";
import { before, describe } from "mocha";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import * as z from "zod";
import { RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { askGitea, askGiteaForText } from "../../scripts/peers/gitea-api/client.ts";
import { createRepository, pushFiles, repositoryPath } from "../../scripts/peers/gitea-api/repository.ts";
import { listJobs, readJobLog } from "../../scripts/peers/gitea-api/runs.ts";
import { cancelRun, logIn, type WebSession } from "../../scripts/peers/gitea-api/web-session.ts";
import { useGitea } from "../support/gitea.ts";
import { describeGitea, type ContractGitea } from "../support/gitea-contract.ts";

/** Begins when it is asked for: this file may be loaded long before its tests run. */
const soon = () => AbortSignal.timeout(120_000);
describe("the real Gitea", () => {
  const real = useGitea();
  let session: WebSession;
  let registrationToken: string;
  let repositories = 0;

  /** Workflows that take their labels when they are dispatched, by number of labels and steps. */
  const labelCounts = [0, 1, 2];
  const stepCounts = [1, 2, 3];

  function workflow(labels: number, steps: number): string {
    const inputs = ["a", "b"].slice(0, labels);
    const list = inputs.map((input) => `'\${{ inputs.${input} }}'`).join(", ");
    return [
      "on:",
      "  workflow_dispatch:",
      ...(labels === 0 ? [] : ["    inputs:"]),
      ...inputs.flatMap((input) => [`      ${input}:`, "        type: string"]),
      "jobs:",
      "  build:",
      `    runs-on: [${list}]`,
      "    steps:",
      ...Array.from({ length: steps }, (_, index) => `      - run: echo ${index}`),
      "",
    ].join("\n");
  }

  const aRepository = async () => {
    const repository = await createRepository(real.admin, { name: `contract-${repositories++}` }, soon());
    const files: Record<string, string> = {};
    for (const labels of labelCounts)
      for (const steps of stepCounts)
        files[`.gitea/workflows/w-${labels}-${steps}.yml`] = workflow(labels, steps);
    await pushFiles(real.admin, repository, { files }, soon());
    return repository;
  };
  let repository: Awaited<ReturnType<typeof aRepository>>;

  before("log in and make a repository", async () => {
    session = await logIn(real.admin, soon());
    repository = await aRepository();
    const output = await real.gitea.command(["actions", "generate-runner-token"], soon());
    registrationToken = output.trim().split("\n").at(-1) ?? "";
  });

  const contract: ContractGitea = {
    get url() {
      return real.gitea.url;
    },
    addRunner: async () => {
      const baseUrl = `${real.gitea.url}/api/actions`;
      const client = createClient(RunnerService, createConnectTransport({ baseUrl, httpVersion: "1.1" }));
      const { runner } = await client.register({ name: "contract", token: registrationToken });
      if (runner === undefined) throw new Error("Register answered no runner");
      return runner;
    },
    addJob: async (runsOn, steps = 1) => {
      const where = repository;
      const { admin } = real;
      const [a, b] = runsOn;
      const { workflow_run_id: run } = await askGitea(
        admin,
        {
          method: "POST",
          path: `${repositoryPath(where)}/actions/workflows/w-${runsOn.length}-${steps}.yml/dispatches?return_run_details=true`,
          body: { ref: "main", inputs: { a, b } },
        },
        z.object({ workflow_run_id: z.int() }),
        soon(),
      );
      const job = async () => {
        const [first] = await listJobs(admin, where, run, soon());
        if (first === undefined) throw new Error(`run ${run} has no job`);
        return first;
      };
      return {
        cancel: () => cancelRun(session, where, run, soon()),
        remove: async () => {
          await askGiteaForText(admin, { method: "DELETE", path: repositoryPath(where) }, soon());
          repository = await aRepository();
        },
        shown: async () => {
          const { status, conclusion, steps: shown } = await job();
          return {
            job: conclusion ?? status,
            steps: (shown ?? []).map((step) => step.conclusion ?? step.status),
          };
        },
        log: async () => {
          const text = await readJobLog(admin, where, (await job()).id, soon());
          return text
            .split("\n")
            .slice(0, -1)
            .map((line) => line.replace(/^\S+ /, ""));
        },
      };
    },
    breakLogStore: async () => {
      const folder = path.join(real.folder, "gitea", "data", "actions_log");
      await chmod(folder, 0o000);
      return { [Symbol.asyncDispose]: () => chmod(folder, 0o755) };
    },
  };

  describeGitea("as a runner sees it", () => contract);
});
