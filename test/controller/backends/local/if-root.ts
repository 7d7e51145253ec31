import { it } from "mocha";

/**
 * Whether tests that give uids away can run here. If not, one test stands in for them that is skipped, saying
 * why, or that fails where CI promises root.
 */
export function canGiveUids(what: string): boolean {
  if (process.geteuid?.() === 0) return true;
  it(`${what} (needs root)`, function () {
    if (process.env["CI"] === "true") throw new Error("CI runs these tests as root");
    console.log(`      skipped: ${what}: giving uids to processes needs root`);
    this.skip();
  });
  return false;
}
