import { systemClock } from "../../controller/platform/clock.ts";
import type { RegisteredRunner } from "../../scripts/peers/gitea-api/register-runner.ts";

const everyMs = 500;

/** A runner that takes the first task that it gets and never says a word about it. Goes on in the background. */
export function fetchAndForget(giteaUrl: string, runner: RegisteredRunner, signal: AbortSignal): void {
  const fetchOnce = async () => {
    const response = await fetch(`${giteaUrl}/api/actions/runner.v1.RunnerService/FetchTask`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-runner-uuid": runner.uuid,
        "x-runner-token": runner.token,
      },
      body: "{}",
      signal,
    });
    return (await response.text()).includes("workflowPayload");
  };
  const fetching = async () => {
    while (!(await fetchOnce())) await systemClock.sleep(everyMs, signal);
  };
  fetching().catch(() => undefined);
}
