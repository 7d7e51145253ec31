import type { Sandbox } from "./opensandbox-api.ts";
import type { Page } from "./read-answer.ts";

/** The most that the server takes. */
export const pageSize = 200;

/** Twenty thousand sandboxes; a server that stops at no page is out of order. */
const maxPages = 100;
/** Where sandboxes come and go faster than the pages, no two sweeps are ever the same. */
const maxSweeps = 5;

/**
 * All sandboxes of all pages, each once, in its last form. The server makes each page anew from what there is by then: a
 * sandbox that goes between two pages moves one that is behind it onto the page that has just been read. So unless
 * there was but one page, all are read again until two sweeps have found the same: one in which something was hidden has
 * found what went, and the next cannot. After the fifth, what either of the last two has found counts. Rejects as
 * `readPage` does, and with an Error if the list does not end.
 */
export async function listSandboxes(
  readPage: (page: number, signal: AbortSignal) => Promise<Page>,
  signal: AbortSignal,
): Promise<readonly Sandbox[]> {
  let before = await sweep(readPage, signal);
  if (before.pages === 1) return [...before.found.values()];
  for (let sweeps = 2; ; sweeps++) {
    const now = await sweep(readPage, signal);
    if (isSame(before.found, now.found)) return [...now.found.values()];
    if (sweeps === maxSweeps) return [...new Map([...before.found, ...now.found]).values()];
    before = now;
  }
}

type Sweep = { readonly found: ReadonlyMap<string, Sandbox>; readonly pages: number };

async function sweep(
  readPage: (page: number, signal: AbortSignal) => Promise<Page>,
  signal: AbortSignal,
): Promise<Sweep> {
  const found = new Map<string, Sandbox>();
  for (let number = 1; number <= maxPages; number++) {
    const { sandboxes, hasNext } = await readPage(number, signal);
    for (const sandbox of sandboxes) found.set(sandbox.id, sandbox);
    if (!hasNext) return { found, pages: number };
  }
  throw new Error(`the list has not ended after ${maxPages} pages`);
}

function isSame(one: ReadonlyMap<string, Sandbox>, other: ReadonlyMap<string, Sandbox>): boolean {
  return one.size === other.size && [...one.keys()].every((id) => other.has(id));
}
