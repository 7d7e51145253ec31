/** An identity that cannot be computed or does not hold: terminal, the message names the field. */
export class IdentityError extends Error {
  override readonly name = "IdentityError";
}
