/**
 * A time in RFC 3339 as `MicroTime` wants it: with exactly six digits behind the point, or the API server refuses the
 * object. What is no time becomes null, which is none.
 * https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#MicroTime
 */
export function microTime(text: string): string | null {
  const [, seconds, digits = "", zone] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  if (seconds === undefined || zone === undefined) return null;
  return `${seconds}.${digits.slice(0, 6).padEnd(6, "0")}${zone}`;
}
