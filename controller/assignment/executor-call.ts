/** Headers between bootstrap and facade, beside the SVID of the connection. */
export const callHeaders = {
  /** Request: the assignment that the caller runs. */
  assignmentId: "ci-assignment-id",
  /** Request: proof of the attempt. */
  capability: "ci-runner-capability",
  /** Request: the bootstrap's random instance id; the first one to call UpdateTask claims the task. */
  instance: "ci-bootstrap-instance",
  /** Answer to UpdateTask: how many log rows Gitea had before the executor's first. */
  logRows: "ci-log-rows",
} as const;

/** Where the runner protocol is served, at Gitea, at the facade and on the executor's loopback address. */
export const actionsPath = "/api/actions";
