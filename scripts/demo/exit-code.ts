import { constants } from "node:os";

/** Somebody ended the demo from outside. */
export class StoppedBySignal extends Error {
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`stopped by ${signal}`);
    this.signal = signal;
  }
}

/** 0 for success, 1 for none, and 128 and the signal's number, as shells have it, when a signal ended it. */
export function exitCode(success: boolean, reason: unknown): number {
  if (reason instanceof StoppedBySignal) return 128 + constants.signals[reason.signal];
  return success && reason === undefined ? 0 : 1;
}
