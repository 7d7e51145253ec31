/** The longest evidence, in UTF-16 code units: a kubelet's whole message about an image, hardly more. */
export const maxEvidence = 400;

/** More than this of a text is never looked at: it comes from outside and may be of any size. */
const looked = 64 * 1024;

/**
 * Makes a text that comes from outside (a cluster, a process, an answer) fit to be shown: one line, well-formed,
 * without control characters and characters that turn or hide text, without what looks like a credential, at most
 * `maxEvidence` long. Doing it again changes nothing. A filter is no proof: whoever has a secret does not put it
 * into evidence in the first place.
 */
export function tidyEvidence(text: string): string {
  return cut(redact(oneLine(text.slice(0, looked))), maxEvidence);
}

function oneLine(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\s]+/gu, " ")
    .trim();
}

function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  const kept = text.slice(0, max - 1);
  // Half of a surrogate pair is not a character.
  return `${kept.isWellFormed() ? kept : kept.slice(0, -1)}…`;
}

const hidden = "[hidden]";

function redact(line: string): string {
  return line
    .replaceAll(/-----BEGIN [A-Z ]+-----[^-]*(-----END [A-Z ]+-----)?/g, hidden)
    .replaceAll(/:\/\/[^\s/@]*@/g, `://${hidden}@`)
    .replaceAll(/\b(bearer|basic) [\w.~+/=-]{16,}/gi, `$1 ${hidden}`)
    .replaceAll(
      /(?<!\/etc\/)\b((?:password|passwd|token|secret|api[_-]?key)["']?[=:] ?["']?)(?!\[)[^\s"'&,;…]+/gi,
      `$1${hidden}`,
    )
    .replaceAll(/(sha(?:256|512):)?[\w+.-]{32,}/g, (word: string, digest: string | undefined) =>
      digest === undefined && word.split(".").some(looksRandom) ? hidden : word,
    );
}

/** Keys, tokens, signatures and the parts of a JWT. Names of images, hosts and Pods are not made like that. */
function looksRandom(part: string): boolean {
  if (part.length < 32) return false;
  return /^[0-9a-f]+$/i.test(part) || (/[0-9]/.test(part) && /[a-z]/.test(part) && /[A-Z]/.test(part));
}
