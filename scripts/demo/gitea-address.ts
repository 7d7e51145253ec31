import * as z from "zod";

const deadlineMs = 10_000;
const configurationSchema = z.object({ issuer: z.url() });

/**
 * The address that Gitea gives to jobs (ROOT_URL in its app.ini), if that is another one than the given and nobody
 * answers there. Undefined also where Gitea does not tell it: the only place that tells is its OpenID configuration.
 */
export async function unreachableAddress(url: string, signal: AbortSignal): Promise<string | undefined> {
  const own = await ownAddress(url, signal);
  if (own === undefined || own === url) return undefined;
  try {
    await answer(`${own}/api/v1/version`, signal);
    return undefined;
  } catch {
    signal.throwIfAborted();
    return own;
  }
}

async function ownAddress(url: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    const text = await answer(`${url}/.well-known/openid-configuration`, signal);
    return configurationSchema.parse(JSON.parse(text)).issuer.replace(/\/+$/, "");
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

async function answer(address: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(address, {
    signal: AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]),
  });
  return await response.text();
}
