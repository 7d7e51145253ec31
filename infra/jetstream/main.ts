import manifest from "../../package.json" with { type: "json" };
import { serveProvider } from "./serve.ts";

// The engine reads the port from the first line, and ends us when it is done.
const { port } = await serveProvider(manifest.version);
process.stdout.write(`${port}\n`);
