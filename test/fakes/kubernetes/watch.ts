import type { Clock } from "../../../controller/platform/clock.ts";
import type { Document } from "./document.ts";
import { badRequest, statusOf } from "./refused.ts";
import { apiVersionOf, type Resource, type Target } from "./resources.ts";
import { selectorOf } from "./selectors.ts";
import type { Change, Store } from "./store.ts";

export type WatchLine = { readonly type: string; readonly object: unknown };

/** The server's side of one watch. Its lines end with the watch; they throw CutOff if the connection is cut. */
export type FakeWatch = {
  readonly lines: AsyncIterable<WatchLine>;
  /** The client has gone. */
  close(): void;
};

/** A connection was cut. */
export class CutOff extends Error {
  override readonly name = "CutOff";
}

export type FakeWatches = {
  open(target: Target, query: Readonly<Record<string, string>>): FakeWatch;
  readonly running: number;
  /** Tells all that asked for it how far the server is by now. */
  sendBookmarks(): void;
  /** Says something in all of them, whatever it is. */
  sendLine(line: WatchLine): void;
  end(): void;
  cut(): void;
  /** Those that run now stay open, and say nothing more. */
  silence(): void;
};

/** So long before the end of a watch it says once more how far it is. */
const bookmarkSeconds = 2;

type Running = {
  readonly push: (line: WatchLine) => void;
  readonly bookmark: () => void;
  readonly finish: (how: "end" | "cut") => void;
  readonly mute: () => void;
};

export function createFakeWatches(store: Store, clock: Clock): FakeWatches {
  const running = new Set<Running>();
  const each = (work: (watch: Running) => void) => {
    for (const watch of running) work(watch);
  };

  const open = (
    { resource, namespace, name }: Target,
    query: Readonly<Record<string, string>>,
  ): FakeWatch => {
    const selects = selectorOf(resource, query);
    const concerns = (document: Document | undefined) =>
      document !== undefined &&
      (namespace === undefined || document.metadata.namespace === namespace) &&
      (name === undefined || document.metadata.name === name) &&
      selects(document);
    const { resourceVersion = "" } = query;
    if (!/^\d*$/.test(resourceVersion)) throw badRequest(`invalid resource version "${resourceVersion}"`);
    const from = Number(resourceVersion);
    const lines = createLines();
    const tell = (change: Change) => {
      const line = lineOf(change, resource, concerns);
      if (line !== undefined) lines.push(line);
    };

    if (from === 0) {
      const there = store.all(resource, namespace).filter(concerns);
      for (const object of there) lines.push({ type: "ADDED", object });
    } else if (from < store.oldest) {
      const message = `too old resource version: ${from} (${store.oldest})`;
      lines.push({ type: "ERROR", object: statusOf(410, "Expired", message) });
      lines.finish("end");
      return { lines, close: () => undefined };
    } else store.since(from).forEach(tell);

    const over = new AbortController();
    let stop = store.onChange(tell);
    const watch: Running = {
      push: lines.push,
      bookmark: () => {
        // Nothing new is nothing to say.
        if (query["allowWatchBookmarks"] !== "true" || store.version === from) return;
        const metadata = { resourceVersion: String(store.version) };
        const object = { kind: resource.kind, apiVersion: apiVersionOf(resource), metadata };
        lines.push({ type: "BOOKMARK", object });
      },
      finish: (how) => {
        close();
        lines.finish(how);
      },
      mute: () => {
        close();
      },
    };
    const close = () => {
      stop();
      stop = () => undefined;
      running.delete(watch);
      over.abort();
    };
    running.add(watch);
    const seconds = Number(query["timeoutSeconds"] ?? 0);
    const endInTime = async () => {
      await clock.sleep(Math.max(0, seconds - bookmarkSeconds) * 1000, over.signal);
      watch.bookmark();
      await clock.sleep(Math.min(seconds, bookmarkSeconds) * 1000, over.signal);
      watch.finish("end");
    };
    // Rejects when the watch has ended before.
    if (seconds > 0) endInTime().catch(() => undefined);
    return { lines, close };
  };

  return {
    open,
    get running() {
      return running.size;
    },
    sendBookmarks: () => {
      store.advance();
      each(({ bookmark }) => bookmark());
    },
    sendLine: (line) => each(({ push }) => push(line)),
    end: () => each(({ finish }) => finish("end")),
    cut: () => each(({ finish }) => finish("cut")),
    silence: () => each(({ mute }) => mute()),
  };
}

/** How a change looks to whoever sees a part of the collection: what leaves that part is deleted for them. */
function lineOf(
  { resource, before, after, version }: Change,
  wanted: Resource,
  concerns: (document: Document | undefined) => boolean,
): WatchLine | undefined {
  if (resource !== wanted) return undefined;
  const [was, is] = [concerns(before), concerns(after)];
  if (is) return { type: was ? "MODIFIED" : "ADDED", object: after };
  if (!was || before === undefined) return undefined;
  const metadata = { ...before.metadata, resourceVersion: String(version) };
  return { type: "DELETED", object: { ...before, metadata } };
}

function createLines() {
  const waiting: WatchLine[] = [];
  let finished: "end" | "cut" | undefined;
  let wake = () => {};
  return {
    push: (line: WatchLine) => {
      if (finished === undefined) waiting.push(line);
      wake();
    },
    finish: (how: "end" | "cut") => {
      finished ??= how;
      wake();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const line = waiting.shift();
        if (line !== undefined) yield line;
        else if (finished === "cut") throw new CutOff("the connection was cut");
        else if (finished === "end") return;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
  };
}
