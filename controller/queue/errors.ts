/**
 * The queue does not answer now, or its stream or consumer is missing: it may be there again later, the caller
 * tries again. The outcome of what was asked is open.
 */
export class QueueUnavailableError extends Error {
  override readonly name = "QueueUnavailableError";
}

/** The task can never be stored with the present limit: its job has to fail, saying both numbers. */
export class TaskTooLargeError extends Error {
  override readonly name = "TaskTooLargeError";
  /** Bytes of the message. */
  readonly size: number;
  readonly limit: number;

  constructor(size: number, limit: number) {
    super(`the task takes ${size} bytes in the queue, ${limit} are possible`);
    this.size = size;
    this.limit = limit;
  }
}
