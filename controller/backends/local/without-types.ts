import { stripTypeScriptTypes } from "node:module";

/** Of what stands on a line by itself, and of `import("./x.ts")`; the type checker lets none of ours be without the ending. */
const ownImport = /(\b(?:from|import)\s*\(?\s*"\.{1,2}\/[^"\n]*)\.ts"/g;

/**
 * The JavaScript of one of our modules, each thing at its own line and column; it imports `x.js` where the other imports `x.ts`.
 * Node warns once in a process that what does this is experimental. Throws where Node would not run it either.
 */
export function withoutTypes(typescript: string): string {
  return stripTypeScriptTypes(typescript).replaceAll(ownImport, '$1.js"');
}
