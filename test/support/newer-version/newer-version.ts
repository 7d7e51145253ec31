/** Makes a controller with these variables a newer version of ours. */
export const newerVersion = { NODE_OPTIONS: `--import=${import.meta.resolve("./preload.ts")}` } as const;

/** Stands on the executors that it makes. */
export const newerAnnotation = "ci.ddupan.top/later";

/** What such a one calls its version. */
export const newerName = /-newer$/;
