import { NatsError } from "nats";

// server/errors.json of nats-server.
const missing = new Set([10014, 10059]);

/** The answer, or undefined where the server says that there is no such stream or consumer. */
export async function unlessMissing<Answer>(answer: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NatsError && missing.has(error.api_error?.err_code ?? 0)) return undefined;
    throw error;
  }
}
