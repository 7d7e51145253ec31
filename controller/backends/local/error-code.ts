/** Whether it is a system error with one of these codes, such as `ENOENT`. */
export function hasErrorCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.some((code) => code === error.code);
}

/** Whether an error says that there is no such file or folder. */
export function isMissing(error: unknown): boolean {
  return hasErrorCode(error, "ENOENT");
}
