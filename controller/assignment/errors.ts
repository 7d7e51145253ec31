/** Input from outside that does not make an assignment: never retried, told to whoever sent it. */
export class InvalidAssignmentError extends Error {
  override readonly name = "InvalidAssignmentError";
}
