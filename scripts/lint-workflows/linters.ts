/** A program that looks at workflows, and its arguments for these files. */
export type Linter = { readonly name: string; readonly args: readonly string[]; readonly remedy: string };

/** Where the workflows of this repository are, and those that the demo pushes. */
export const workflowPatterns = [
  ".gitea/workflows/*.{yml,yaml}",
  "scripts/demo/example/.gitea/workflows/*.{yml,yaml}",
] as const;

/** Files of settings, which are YAML too. */
const settings = { actionlint: ".gitea/actionlint.yaml", yamllint: ".gitea/yamllint.yaml" } as const;

/** What looks at these workflows. Paths are from the top of the repository. */
export function lintersFor(files: readonly string[], shellcheck: string): readonly Linter[] {
  return [
    {
      name: "yamllint",
      args: ["--strict", "--config-file", settings.yamllint, ...Object.values(settings), ...files],
      remedy: "apt install yamllint",
    },
    {
      name: "actionlint",
      // By path: without it the scripts in the workflows would go unread, without a word.
      args: [
        "-no-color",
        "-config-file",
        settings.actionlint,
        "-shellcheck",
        shellcheck,
        "-pyflakes=",
        ...files,
      ],
      remedy: "npm run peers -- actionlint",
    },
  ];
}
