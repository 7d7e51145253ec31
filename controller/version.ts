import manifest from "../package.json" with { type: "json" };

/** How Gitea and logs name this program. */
export const version = `gitea-dynamic-runner/${manifest.version}`;
