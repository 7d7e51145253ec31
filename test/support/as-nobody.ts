import { execFile } from "node:child_process";

const nobody = 65_534;
const maxBuffer = 256 * 1024 * 1024;

/** What a shell script prints when a user runs it who has nothing to do with us. Needs root. */
export async function asNobody(script: string, ...args: readonly string[]): Promise<Buffer> {
  const options = { uid: nobody, gid: nobody, cwd: "/", env: { PATH: "/usr/bin:/bin" }, maxBuffer };
  return await new Promise((resolve) => {
    // What may not be read makes cat fail, which is as it should be.
    execFile("sh", ["-c", script, "sh", ...args], { ...options, encoding: "buffer" }, (_, stdout) =>
      resolve(stdout),
    );
  });
}
