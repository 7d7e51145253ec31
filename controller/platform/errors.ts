/** One line that says what failed and why, along the chain of causes; never a stack, never a body. */
export function describeError(error: unknown): string {
  const parts: string[] = [];
  let current: unknown = error;
  for (let depth = 0; current !== undefined && depth < 5; depth++) {
    const text = current instanceof Error ? current.message : typeof current === "string" ? current : "";
    if (text !== "" && !parts.some((part) => part.includes(text))) parts.push(text);
    current = current instanceof Error ? current.cause : undefined;
  }
  return parts.length === 0 ? "unknown error" : parts.join(": ");
}
