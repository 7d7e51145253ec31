/**
 * Which of these settings, by the server's own names, an object of the server has otherwise, a sentence each. What a
 * server says nothing of is off.
 */
export function astray(wanted: Readonly<Record<string, unknown>>, config: object): readonly string[] {
  const found = new Map<string, unknown>(Object.entries(config));
  return Object.entries(wanted).flatMap(([name, value]) => {
    const there = found.get(name);
    return text(there) === text(value) ? [] : [`${name} is ${text(there)}, not ${text(value)}`];
  });
}

function text(value: unknown): string {
  const isOff =
    value === undefined || value === false || value === 0 || (Array.isArray(value) && value.length === 0);
  return isOff ? "off" : JSON.stringify(value);
}
