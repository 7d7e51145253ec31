/**
 * One line that says what failed and why, along the chain of causes; never a stack, never a body. What failed in several
 * ways, as a name with several addresses does, says all of them.
 */
export function describeError(error: unknown): string {
  const parts: string[] = [];
  let current: unknown = error;
  for (let depth = 0; current !== undefined && depth < 5; depth++) {
    const text = textOf(current);
    if (text !== "" && !parts.some((part) => part.includes(text))) parts.push(text);
    current = current instanceof Error ? current.cause : undefined;
  }
  return parts.length === 0 ? "unknown error" : parts.join(": ");
}

function textOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === "")
    return [...new Set(error.errors.map((one) => describeError(one)))].join("; ");
  return error instanceof Error ? error.message : typeof error === "string" ? error : "";
}
