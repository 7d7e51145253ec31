import { z } from "zod";
import type { SpiffeId } from "../identity/spiffe-id.ts";
import type { WorkloadClient } from "./workload-client.ts";

export type JwtSvid = {
  readonly id: SpiffeId;
  /** A compact JWS; it is a secret until it expires. */
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
};

export type JwtSvidOptions = {
  readonly client: Pick<WorkloadClient, "fetchJwtSvids" | "endpoint">;
  readonly audience: string;
  /** The one ID that is taken; a workload may be given several. */
  readonly expectedId: SpiffeId;
  readonly timeoutMs: number;
};

const claimsSchema = z.object({
  sub: z.string(),
  aud: z.union([z.string().transform((audience) => [audience]), z.array(z.string())]),
  exp: z.number(),
});

/**
 * Fetches one JWT-SVID; nothing is kept or repeated, agents keep tokens themselves. Rejects with the ConnectError
 * of the call (`isFinal` says whether the caller may try again), or with an error if the answer is of no use. The
 * signature is not checked: whoever is shown the token does that.
 */
export async function fetchJwtSvid(options: JwtSvidOptions, signal: AbortSignal): Promise<JwtSvid> {
  const { client, audience, expectedId, timeoutMs } = options;
  const answer = await client.fetchJwtSvids({ audience, spiffeId: expectedId, timeoutMs }, signal);
  const token = answer.svids.find(({ spiffeId }) => spiffeId === expectedId)?.svid;
  if (token === undefined) throw new Error(`no JWT-SVID for ${expectedId} from ${client.endpoint}`);
  const claims = claimsOf(token);
  if (claims?.sub !== expectedId || !claims.aud.includes(audience)) {
    throw new Error(
      `the JWT-SVID from ${client.endpoint} is no token of ${expectedId} for ${audience} with an expiry`,
    );
  }
  return { id: expectedId, token, expiresAt: claims.exp * 1000 };
}

function claimsOf(token: string): z.output<typeof claimsSchema> | undefined {
  const payload = Buffer.from(token.split(".")[1] ?? "", "base64url").toString();
  try {
    return claimsSchema.safeParse(JSON.parse(payload)).data;
  } catch {
    return undefined;
  }
}
