import manifest from "../../package.json" with { type: "json" };
import { serveProvider } from "./serve.ts";

// The engine gives its own address, reads the port from the first line, and ends us when it is done.
const { port } = await serveProvider(manifest.version, process.argv[2]);
process.stdout.write(`${port}\n`);
