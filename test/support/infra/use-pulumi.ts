import assert from "node:assert/strict";
import { chmod, copyFile, link, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, afterEach, before } from "mocha";
import type { imageProviders, infraPeers, Peer } from "../../../scripts/peers/peer.ts";
import { findPeer } from "../../../scripts/peers/prepare-peer.ts";
import { type Outcome, runToEnd } from "../../../scripts/peers/run-to-end.ts";
import { skipFor } from "../needs-tools.ts";
import { pulumiEnvironment } from "./pulumi-environment.ts";
import { makeProject, type ProgramName, writeSettings } from "./pulumi-project.ts";

/** One stack of a project. */
export type Stack = {
  readonly folder: string;
  /** Says anew what the stack's file says in clear: settings of the platform, and properties to be changed. */
  configure(
    settings: Readonly<Record<string, unknown>>,
    properties?: Readonly<Record<string, object>>,
  ): Promise<void>;
  /** Runs the CLI on it: `stack.run("preview", "--diff")`. */
  run(command: string, ...options: readonly string[]): Promise<Outcome>;
  /** The same where it has to succeed; resolves with what was written to stdout. */
  done(command: string, ...options: readonly string[]): Promise<string>;
  /** The same where it has to fail; resolves with both outputs. */
  refused(command: string, ...options: readonly string[]): Promise<string>;
  /** What the state knows of. */
  resources(): Promise<readonly Resource[]>;
  /** What a preview would do, step by step, but for what stays as it is or is only read. */
  plan(...options: readonly string[]): Promise<readonly Step[]>;
};

export type Resource = {
  readonly urn: string;
  readonly type: string;
  readonly protect?: boolean;
  readonly retainOnDelete?: boolean;
};

/** What the engine does with one resource, as its JSON says. */
export type Step = {
  /** `create`, `update`, `replace`, … */
  readonly op: string;
  /** `kubernetes:core/v1:Secret secrets`, of the last type of its URN. */
  readonly resource: string;
  readonly detailedDiff?: Readonly<Record<string, unknown>> | null;
  readonly newState?: { readonly inputs?: object; readonly protect?: boolean };
};

/** Pulumi's real engine, with backend, home and everything else in a folder of the test's own. */
export type PulumiUnderTest = {
  readonly folder: string;
  readonly environment: NodeJS.ProcessEnv;
  /** All that was written by all commands. */
  readonly told: readonly string[];
  /** Makes a stack, in a project of its own unless that project has one already. */
  stack(name: string, options: StackOptions): Promise<Stack>;
};

export type StackOptions = {
  readonly program: ProgramName;
  /** By name; given to the CLI as a person would. */
  readonly secrets: Readonly<Record<string, string>>;
};

type ProviderName = Exclude<(typeof infraPeers)[number] | (typeof imageProviders)[number], "pulumi">;

export type PulumiOptions = {
  /** Providers that the program needs besides the repository's own. */
  readonly providers?: readonly ProviderName[];
  /** Of peers, by which a person builds them; `pulumi` unless given. */
  readonly group?: string;
  /** For one command; four minutes unless given. */
  readonly deadlineMs?: number;
  /** What the CLI runs with besides; asked for each command. */
  readonly besides?: () => NodeJS.ProcessEnv;
};

/** Of one command on a machine that does much else. */
const usualDeadlineMs = 480_000;

/**
 * Registers hooks that prepare the engine for the surrounding file or `describe`, and remove all of it. Where there is no CLI the
 * tests are skipped with the reason, or fail with CI=true.
 */
export function usePulumi({
  providers = [],
  group = "pulumi",
  deadlineMs = usualDeadlineMs,
  besides = () => ({}),
}: PulumiOptions = {}): PulumiUnderTest {
  let folder: string | undefined;
  let environment: NodeJS.ProcessEnv = {};
  const told: string[] = [];
  const projects = new Set<string>();
  const made = () => {
    assert.ok(folder !== undefined, "the engine of this test is not prepared yet");
    return folder;
  };
  before("prepare Pulumi's engine", async function () {
    const found = await Promise.all(
      (["pulumi", ...providers] as const).map((name) => findPeer(name, {}, AbortSignal.timeout(60_000))),
    );
    const [peer, ...plugins] = found;
    if (peer === undefined || plugins.includes(undefined))
      skipFor(this, `${["Pulumi's CLI", ...providers].join(" or ")} is not built: npm run peers -- ${group}`);
    folder = await mkdtemp(path.join(tmpdir(), "pulumi-"));
    const bin = path.join(folder, "bin");
    await installCli(peer.binary, bin);
    const home = path.join(folder, "pulumi-home");
    for (const plugin of plugins) if (plugin !== undefined) await installProvider(plugin, home);
    environment = await pulumiEnvironment(folder, bin);
  });
  afterEach("show what a failed test was told", function () {
    if (this.currentTest?.state === "failed") process.stderr.write(`${told.slice(-2).join("\n")}\n`);
  });
  after("remove it", async () => {
    // A provider that was just ended may have a last file on its way.
    if (folder !== undefined) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  const run = async (project: string, args: readonly string[]) => {
    const outcome = await pulumiCommand(args, project, { ...environment, ...besides() }, deadlineMs);
    told.push(`$ pulumi ${args.join(" ")}\n${outcome.stdout}${outcome.stderr}`);
    return outcome;
  };
  const succeed = async (project: string, args: readonly string[]) => {
    const { exitCode, stdout, stderr } = await run(project, args);
    assert.equal(exitCode, 0, `pulumi ${args[0]} failed with ${exitCode}:\n${stdout}\n${stderr}`);
    return stdout;
  };
  return {
    get folder() {
      return made();
    },
    get environment() {
      return { ...environment, ...besides() };
    },
    told,
    stack: async (name, { program, secrets }) => {
      const project = path.join(made(), program);
      if (!projects.has(project)) await makeProject(project, program);
      projects.add(project);
      await succeed(project, ["stack", "init", name]);
      for (const [key, value] of Object.entries(secrets))
        // Not by way of `run`, which keeps the words.
        await setSecret(project, name, key, value, environment);
      const words = (command: string, options: readonly string[]) => [command, ...options, "--stack", name];
      return {
        folder: project,
        configure: (settings, properties) =>
          writeSettings(project, name, {
            ...prefixed("gitea-dynamic-runner", settings),
            ...(properties === undefined ? {} : { "test:properties": properties }),
          }),
        run: (command, ...options) => run(project, words(command, options)),
        done: (command, ...options) => succeed(project, words(command, options)),
        refused: async (command, ...options) => {
          const { exitCode, stdout, stderr } = await run(project, words(command, options));
          assert.notEqual(exitCode, 0, `pulumi ${command} succeeded:\n${stdout}`);
          return stdout + stderr;
        },
        resources: async () => {
          // Not by way of `run`: a failed test would show all of it.
          const exported = await pulumiCommand(["stack", "export", "--stack", name], project, environment);
          const state: unknown = JSON.parse(exported.stdout);
          return (state as { deployment: { resources?: Resource[] } }).deployment.resources ?? [];
        },
        plan: async (...options) => {
          const plan: unknown = JSON.parse(await succeed(project, words("preview", ["--json", ...options])));
          return (plan as { steps: readonly (Omit<Step, "resource"> & { urn: string })[] }).steps
            .filter(({ op }) => op !== "same" && op !== "read")
            .map(({ urn, ...step }) => ({ ...step, resource: resourceOf(urn) }));
        },
      };
    },
  };
}

async function pulumiCommand(
  args: readonly string[],
  folder: string,
  environment: NodeJS.ProcessEnv,
  deadline: number = usualDeadlineMs,
): Promise<Outcome> {
  const command = { program: "pulumi", args, folder, environment, deadline };
  return await runToEnd(command, new AbortController().signal);
}

/** The CLI, and beside it, where it looks for what is bundled with it, a stand-in for the language host of Node programs. */
async function installCli(binary: string, bin: string): Promise<void> {
  await mkdir(bin);
  const cli = path.join(bin, "pulumi");
  // By a link of its own: by a symbolic one it would look where the original is.
  await link(binary, cli).catch(() => copyFile(binary, cli));
  const host = path.join(bin, "pulumi-language-nodejs");
  const main = path.join(import.meta.dirname, "language-host", "main.ts");
  await writeFile(host, `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`);
  await chmod(host, 0o755);
}

/** Where `pulumi plugin install` puts one. */
async function installProvider({ name, version, binary }: Peer, home: string): Promise<void> {
  const place = path.join(home, "plugins", `${name.replace(/^pulumi-/, "")}-v${version}`);
  await mkdir(place, { recursive: true });
  await link(binary, path.join(place, name)).catch(() => copyFile(binary, path.join(place, name)));
}

async function setSecret(
  folder: string,
  stack: string,
  key: string,
  value: string,
  environment: NodeJS.ProcessEnv,
): Promise<void> {
  const args = ["config", "set", "--stack", stack, "--secret", key, value];
  const { exitCode, stderr } = await pulumiCommand(args, folder, environment);
  assert.equal(exitCode, 0, `${key} cannot be set: ${stderr}`);
}

/** `urn:pulumi:prod::project::parent$type::name` as `type name`. */
function resourceOf(urn: string): string {
  const [, , types = "", name = ""] = urn.split("::");
  return `${types.split("$").at(-1) ?? ""} ${name}`;
}

function prefixed(namespace: string, settings: Readonly<Record<string, unknown>>) {
  return Object.fromEntries(Object.entries(settings).map(([key, value]) => [`${namespace}:${key}`, value]));
}
