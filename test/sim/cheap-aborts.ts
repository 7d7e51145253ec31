/**
 * An abort without a reason makes a DOMException with a stack, which takes more time than most of what a simulated
 * event does. To be called once in a process that runs many seeds; each abort still has a reason of its own.
 */
export function makeAbortsCheap(): void {
  Error.stackTraceLimit = 0;
  AbortController.prototype.abort = new Proxy(Reflect.get(AbortController.prototype, "abort") as Abort, {
    apply: (abort, controller: AbortController, [reason = new Error("aborted")]: readonly unknown[]) => {
      abort.call(controller, reason);
    },
  });
}

type Abort = (this: AbortController, reason?: unknown) => void;
