/** Input from outside that does not make an assignment: never retried, told to whoever sent it. */
export class InvalidAssignmentError extends Error {
  override readonly name = "InvalidAssignmentError";
}

/** An executor's last report is larger than what is kept of one: the job fails, whatever it says. */
export class ReportTooLargeError extends Error {
  override readonly name = "ReportTooLargeError";
}
