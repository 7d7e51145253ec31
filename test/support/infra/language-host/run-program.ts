import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import path from "node:path";
import type { RunRequest } from "@pulumi/pulumi/proto/language_pb.js";

/**
 * Runs a program by the SDK's own runner, as the real host does: `@pulumi/pulumi/cmd/run` in a process of its own, with
 * configuration in the environment. Its output is ours, which the engine shows. Resolves with its exit code.
 */
export async function runProgram(request: RunRequest, engine: string): Promise<number> {
  const info = request.getInfo();
  if (info === undefined) throw new Error("the engine does not say which program to run");
  const runner = createRequire(path.join(info.getProgramDirectory(), "program.js")).resolve(
    "@pulumi/pulumi/cmd/run",
  );
  const flags = {
    monitor: request.getMonitorAddress(),
    engine,
    organization: request.getOrganization(),
    project: request.getProject(),
    "root-directory": info.getRootDirectory(),
    stack: request.getStack(),
    pwd: request.getPwd(),
    parallel: String(request.getParallel()),
  };
  const args = [
    runner,
    ...Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]),
    ...(request.getDryrun() ? ["--dry-run"] : []),
    info.getEntryPoint(),
    ...request.getArgsList(),
  ];
  const { typescript = true } = info.getOptions()?.toJavaScript() ?? {};
  const child = spawn(process.execPath, args, {
    cwd: request.getPwd(),
    // Our first line of stdout was the port; from then on the engine shows both.
    stdio: ["ignore", "inherit", "inherit"],
    env: {
      ...process.env,
      PULUMI_CONFIG: JSON.stringify(Object.fromEntries(request.getConfigMap().toArray())),
      PULUMI_CONFIG_SECRET_KEYS: JSON.stringify(request.getConfigsecretkeysList()),
      PULUMI_NODEJS_TYPESCRIPT: JSON.stringify(typescript),
    },
  });
  const [code] = await once(child, "exit");
  return typeof code === "number" ? code : 1;
}
