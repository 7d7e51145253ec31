import { mkdtemp, rm } from "node:fs/promises";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before } from "mocha";
import { chromium, type BrowserContext, type Page } from "playwright-core";
import type { GiteaAdmin } from "../../scripts/peers/gitea-api/admin.ts";

const executable = "/usr/bin/chromium";
const startMs = 120_000;
const pageMs = 90_000;
/** It must not look for anything outside this machine. */
const quiet = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Debian's Chromium, headless, one for a test file. */
export type BrowserUnderTest = {
  /** A page on which the administrator is logged in. */
  logIn(admin: GiteaAdmin): Promise<Page>;
};

/**
 * Registers hooks that run one browser for the surrounding `describe`. Where there is none its tests are skipped, and
 * the reason is printed; with CI=true that is a failure.
 */
export function useBrowser(): BrowserUnderTest {
  let context: BrowserContext | undefined;
  let profile: string | undefined;
  before("start the browser", async function () {
    this.timeout(startMs);
    if (!existsSync(executable)) {
      const reason = `${executable} is missing: apt-get install chromium`;
      if (process.env["CI"] === "true") throw new Error(reason);
      process.stderr.write(`skipped: ${reason}\n`);
      this.skip();
    }
    profile = await mkdtemp(path.join(tmpdir(), "browser-"));
    const launch = {
      executablePath: executable,
      headless: true,
      args: quiet,
      viewport: { width: 1300, height: 1000 },
    };
    context = await chromium.launchPersistentContext(profile, { ...launch, timeout: startMs });
    // What a page shows comes a moment later, and on a busy machine more than that.
    context.setDefaultTimeout(pageMs);
  });
  after("stop the browser", async () => {
    await context?.close();
    if (profile !== undefined) await rm(profile, { recursive: true, force: true });
  });
  return {
    logIn: async ({ url, user, password }) => {
      if (context === undefined) throw new Error("the browser of this test is not started");
      const page = await context.newPage();
      await page.goto(`${url}/user/login`);
      await page.fill("#user_name", user);
      await page.fill("#password", password);
      await page.press("#password", "Enter");
      await page.waitForURL((address) => address.pathname !== "/user/login");
      return page;
    },
  };
}
