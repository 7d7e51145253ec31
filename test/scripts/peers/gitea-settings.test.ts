import assert from "node:assert/strict";
import { describe, it } from "mocha";
import {
  formatSettings,
  giteaSettings,
  mergeSettings,
  newGiteaSecrets,
} from "../../../scripts/peers/gitea-settings.ts";

describe("Gitea's settings", () => {
  it("are an app.ini whose first keys are in no section", () => {
    const text = formatSettings({ "": { RUN_MODE: "prod" }, actions: { ENABLED: "true" } });
    assert.equal(text, "RUN_MODE = prod\n\n[actions]\nENABLED = true\n");
  });

  it("are replaced and completed key by key", () => {
    const ours = { actions: { ENABLED: "true" }, log: { MODE: "console" } };
    const more = {
      actions: { ENDLESS_TASK_TIMEOUT: "10s" },
      log: { MODE: "file" },
      mailer: { ENABLED: "false" },
    };
    assert.deepEqual(mergeSettings(ours, more), {
      actions: { ENABLED: "true", ENDLESS_TASK_TIMEOUT: "10s" },
      log: { MODE: "file" },
      mailer: { ENABLED: "false" },
    });
  });

  it("name a static root only where there is one", () => {
    const place = { folder: "/run/gitea", address: "127.0.0.1", port: 3000, secrets: newGiteaSecrets() };
    const staticRoot = (root: string | undefined) =>
      giteaSettings({ ...place, staticRoot: root })["server"]?.["STATIC_ROOT_PATH"];
    assert.equal(staticRoot("/run/static"), "/run/static");
    assert.equal(staticRoot(undefined), undefined);
  });
});
