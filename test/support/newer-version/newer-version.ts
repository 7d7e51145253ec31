/** Makes a controller with these variables a newer version of ours. */
export const newerVersion = { NODE_OPTIONS: `--import=${import.meta.resolve("./preload.ts")}` } as const;

/** What such a one calls its version. */
export const newerName = /-newer$/;
