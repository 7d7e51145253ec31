import type { GiteaAdmin } from "./admin.ts";
import type { Repository } from "./repository.ts";

/** A browser's login, for what the REST API cannot do. */
export type WebSession = {
  readonly url: string;
  /** Value for the `Cookie` header. */
  readonly cookie: string;
};

const answerDeadlineMs = 120_000;

/** Logs in with a password, as the web page does. */
export async function logIn(admin: GiteaAdmin, signal: AbortSignal): Promise<WebSession> {
  const response = await fetch(`${admin.url}/user/login`, {
    method: "POST",
    redirect: "manual",
    body: new URLSearchParams({ user_name: admin.user, password: admin.password }),
    signal: AbortSignal.any([signal, AbortSignal.timeout(answerDeadlineMs)]),
  });
  await response.body?.cancel();
  // A login that is accepted redirects to the start page; a refused one shows the form again.
  if (response.status !== 303 && response.status !== 302) {
    throw new Error(`logging in as ${admin.user}: ${response.status}`);
  }
  return { url: admin.url, cookie: cookieHeader(response.headers.getSetCookie()) };
}

/** What a browser would send back: the login sets the session twice, and the later one counts. */
function cookieHeader(setCookies: readonly string[]): string {
  const pairs = new Map<string, string>();
  for (const setCookie of setCookies) {
    const pair = setCookie.split(";")[0] ?? "";
    pairs.set(pair.split("=")[0] ?? "", pair);
  }
  return [...pairs.values()].join("; ");
}

/** Cancels all jobs of a run that have not ended, as the button on its page does. */
export async function cancelRun(
  session: WebSession,
  repository: Repository,
  run: number,
  signal: AbortSignal,
): Promise<void> {
  const owner = encodeURIComponent(repository.owner);
  const name = encodeURIComponent(repository.name);
  const response = await fetch(`${session.url}/${owner}/${name}/actions/runs/${run}/cancel`, {
    method: "POST",
    redirect: "manual",
    headers: { cookie: session.cookie },
    signal: AbortSignal.any([signal, AbortSignal.timeout(answerDeadlineMs)]),
  });
  const text = await response.text();
  if (response.status !== 200)
    throw new Error(`cancelling run ${run}: ${response.status} ${text.slice(0, 200)}`);
}
