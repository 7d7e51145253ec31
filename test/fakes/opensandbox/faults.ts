import { CutOff, type FakeAnswer } from "./answer.ts";

export type Verb = "create" | "get" | "list" | "patch" | "delete" | "pool";

/** A call that came. */
export type FakeCall = {
  readonly verb: Verb;
  /** `GET /sandboxes/x`. */
  readonly what: string;
  readonly query: URLSearchParams;
  readonly requestId: string;
  /** As it was sent. */
  readonly text: string;
};

export type CallMatch = Verb | ((call: FakeCall) => boolean);

export type Fault =
  /** It is not done, and this is the answer: of the server, or of a proxy in front of it. */
  | FakeAnswer
  | "hang up"
  | "no answer"
  /** It is done, and nobody hears of it. */
  | "lost answer"
  | "answer that never comes";

/** Where a call waits: before it is done, or after; a patch also when it has read what it will write anew. */
export type Stage = "before" | "within" | "after";

export type Held = {
  /** The call is there. */
  readonly arrived: Promise<void>;
  /** Lets it go on. */
  release(): void;
};

export type Faults = {
  /** The next calls that fit, as many as `times` says. Resolves when the first has come. */
  failNext(match: CallMatch, fault: Fault, times?: number): { readonly met: Promise<void> };
  /** The next call that fits waits there. */
  holdNext(match: CallMatch, stage: Stage): Held;
  around(
    call: FakeCall,
    work: (within: () => Promise<void>) => Promise<FakeAnswer>,
    gone: AbortSignal,
  ): Promise<FakeAnswer>;
};

type Plan = {
  readonly match: CallMatch;
  left: number;
  readonly meet: () => void;
  readonly kind: { readonly fault: Fault } | { readonly stage: Stage; readonly go: Promise<void> };
};

/** `gone` is aborted when the server is; one that waits does not hear of its caller. */
export function createFaults(): Faults {
  const plans = new Set<Plan>();
  const plan = (match: CallMatch, left: number, kind: Plan["kind"]) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    plans.add({ match, left, kind, meet: resolve });
    return promise;
  };
  return {
    failNext: (match, fault, times = 1) => ({ met: plan(match, times, { fault }) }),
    holdNext: (match, stage) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      return { arrived: plan(match, 1, { stage, go: promise }), release: resolve };
    },
    around: async (call, work, gone) => {
      const planned = [...plans].find(({ match }) =>
        typeof match === "string" ? match === call.verb : match(call),
      );
      if (planned === undefined) return await work(() => Promise.resolve());
      if (--planned.left === 0) plans.delete(planned);
      const { kind, meet } = planned;
      if ("fault" in kind) {
        meet();
        return await fail(kind.fault, work, gone);
      }
      const wait = async (stage: Stage) => {
        if (stage !== kind.stage) return;
        meet();
        await either(kind.go, gone);
      };
      await wait("before");
      const answer = await work(() => wait("within"));
      await wait("after");
      return answer;
    },
  };
}

async function fail(
  fault: Fault,
  work: (within: () => Promise<void>) => Promise<FakeAnswer>,
  gone: AbortSignal,
): Promise<FakeAnswer> {
  if (typeof fault === "object") return fault;
  if (fault === "lost answer" || fault === "answer that never comes") await work(() => Promise.resolve());
  if (fault === "no answer" || fault === "answer that never comes")
    await either(new Promise<never>(() => undefined), gone);
  throw new CutOff(fault);
}

async function either(promise: Promise<void>, gone: AbortSignal): Promise<void> {
  const over = Promise.withResolvers<never>();
  const abort = () => over.reject(new CutOff("the server is gone"));
  if (gone.aborted) abort();
  gone.addEventListener("abort", abort, { once: true });
  await Promise.race([promise, over.promise]).finally(() => gone.removeEventListener("abort", abort));
}
