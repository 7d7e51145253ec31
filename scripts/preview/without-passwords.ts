/** Pulumi hides its own secrets, but an error may name an address with a user and a password in it. */
export function withoutPasswords(text: string): string {
  return text.replaceAll(/(\b[a-z][\w+.-]{0,30}:\/\/)[^\s/]+@/gi, "$1[redacted]@");
}
