import type { Gate } from "../chaos/gates.ts";

/** One job for a VM, which tells that it runs and goes on when it is let. */
export const gatedWorkflow = (begun: Gate, end: Gate) => `
on: push
jobs:
  one:
    runs-on: [self-hosted, vm]
    steps:
      - run: |
          ${begun.open}
          ${end.wait}
          echo "still here"
`;
