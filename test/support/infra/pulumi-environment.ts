import { mkdir } from "node:fs/promises";
import path from "node:path";

/**
 * What the CLI runs with: everything of its own below `folder`, no internet, no questions. `--yes` is given with each command, since
 * the variable for it forbids `--preview-only`.
 */
export async function pulumiEnvironment(folder: string, bin: string): Promise<NodeJS.ProcessEnv> {
  const own = async (name: string) => {
    const made = path.join(folder, name);
    await mkdir(made, { recursive: true });
    return made;
  };
  return {
    // The provider runs with the node that is found first.
    PATH: [bin, path.dirname(process.execPath), "/usr/bin", "/bin"].join(path.delimiter),
    HOME: await own("home"),
    TMPDIR: await own("temporary"),
    PULUMI_HOME: await own("pulumi-home"),
    PULUMI_BACKEND_URL: `file://${await own("state")}`,
    PULUMI_CONFIG_PASSPHRASE: "",
    PULUMI_SKIP_UPDATE_CHECK: "true",
    PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: "true",
    PULUMI_OPTION_COLOR: "never",
    PULUMI_OPTION_NON_INTERACTIVE: "true",
  };
}
