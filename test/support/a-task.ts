import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Task, TaskSchema } from "../../proto/gen/runner/v1/runner_pb.ts";

/** Task 42 of a repository at `https://gitea.example.org`: job `build` with two steps, for `[self-hosted, pod]`. */
export function aTask(overrides: MessageInitShape<typeof TaskSchema> & { workflow?: string } = {}): Task {
  const { workflow = aWorkflow, ...rest } = overrides;
  return create(TaskSchema, {
    id: 42n,
    workflowPayload: Buffer.from(workflow),
    context: {
      job: "build",
      event_name: "push",
      event: { ref: "refs/heads/main" },
      repository: "acme/widgets",
      repository_owner: "acme",
      run_id: "7",
      run_number: "3",
      sha: "0123456789abcdef0123456789abcdef01234567",
      ref: "refs/heads/main",
      server_url: "https://gitea.example.org/",
      token: "not-a-token",
    },
    // gitea-runner writes into this map, and panics when Gitea sends none; it always does.
    secrets: { GITEA_TOKEN: "not-a-token", GITHUB_TOKEN: "not-a-token" },
    ...rest,
  });
}

const aWorkflow = `
name: test
on: push
jobs:
  build:
    runs-on: [self-hosted, pod]
    steps:
      - run: echo first
      - run: echo second
`;
