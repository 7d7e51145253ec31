import { parseArgs } from "node:util";
import { describeError } from "../controller/platform/errors.ts";
import { runDemo } from "./demo/run-demo.ts";
import { createReport } from "./peers/report.ts";

const help = `Usage: npm run demo [-- --exit]

Starts a real Gitea, a real NATS JetStream and the controller on this machine, pushes an example repository, and
shows how its two jobs run in throw-away executors. Everything is on loopback and below one temporary folder.

  --exit      ends when the jobs have, with code 0 only if Gitea says success; otherwise all stays up until Ctrl-C
  -h, --help  this text

The first time Gitea is compiled, which takes about five minutes on two cores. \`npm run peers -- --help\` says how
to use programs that are there already.
`;

const { values } = parseArgs({
  options: { exit: { type: "boolean" }, help: { type: "boolean", short: "h" } },
});
if (values.help === true) {
  process.stdout.write(help);
} else {
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.on(name, () => {
      stop.abort(new Error(`stopped by ${name}`));
    });
  const say = (line: string) => process.stdout.write(`${line}\n`);
  try {
    const success = await runDemo({ exit: values.exit === true, say, report: createReport() }, stop.signal);
    process.exitCode = success ? 0 : 1;
  } catch (error) {
    process.stderr.write(`demo: ${describeError(error)}\n`);
    process.exitCode = 1;
  }
}
