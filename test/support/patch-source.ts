import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

/** A text that stands in one of our source files once, and what is to stand there in its place. */
export type Patch = {
  /** Below the repository's root. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
};

const root = new URL("../../", import.meta.url);

/** The file as it would be. Throws as `patchSource` does. */
export function patchedSource({ file, from, to }: Patch): string {
  const source = readFileSync(new URL(file, root), "utf8");
  const times = source.split(from).length - 1;
  if (times !== 1) throw new Error(`${file} has ${JSON.stringify(from)} ${times} times, not once`);
  return source.replace(from, () => to);
}

/**
 * Changes a source file on its way into this process, so that a test can break the product without a switch in it.
 * To be called before the file is imported, by a program that is preloaded (`node --import`). Throws if the text does
 * not stand there exactly once: the code has moved on, and the test would test nothing.
 */
export function patchSource(patch: Patch): void {
  const target = new URL(patch.file, root);
  const patched = patchedSource(patch);
  registerHooks({
    load: (url, context, nextLoad) =>
      url === target.href
        ? { format: "module-typescript", shortCircuit: true, source: patched }
        : nextLoad(url, context),
  });
}
