import { enableCompileCache } from "node:module";
import path from "node:path";

// Required by `npm test`. Most of a short process's time goes into stripping types and compiling, so what node makes of a module
// is kept: for this process, for mocha's workers, and for every child that is given the variable. Node takes an entry only for
// the same content, and has a folder in there for each version of its own and each uid.
process.env["NODE_COMPILE_CACHE"] ??= path.join(import.meta.dirname, "../../node_modules/.cache/compile");
enableCompileCache(process.env["NODE_COMPILE_CACHE"]);
