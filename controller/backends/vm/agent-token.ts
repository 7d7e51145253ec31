import { type ExecutorMetadata, executorName } from "../../assignment/executor-metadata.ts";
import { joinSpiffeId, parseTrustDomain, pathOf, type SpiffeId } from "../../identity/spiffe-id.ts";
import { BackendError } from "../backend.ts";

const agents = "/spire/agent/join_token/";
/** SPIRE server's databases hold no more of an agent's ID, MySQL for one. */
const longestAgentId = 255;
const rest = /^(?<executor>gitea-task-[0-9]+-[0-9]+-[0-9a-f]{8})\.[0-9a-f]{32}$/;

/**
 * The token with which the agent in a VM of that attempt joins. SPIRE makes it a part of the agent's ID
 * (https://github.com/spiffe/spire/blob/main/doc/plugin_server_nodeattestor_jointoken.md), so that owner and executor
 * can be read there and nothing else has to be kept; `random` (32 hexadecimal digits) is what nobody can guess. Throws a
 * terminal BackendError if the agent's ID would not fit into SPIRE's database.
 */
export function agentToken(
  { owner, assignment, attempt }: Pick<ExecutorMetadata, "owner" | "assignment" | "attempt">,
  random: string,
  trustDomain: string,
): string {
  const token = `ci.${owner}.${executorName(assignment, attempt)}.${random}`;
  const id = agentIdOf(token, trustDomain);
  if (id.length > longestAgentId)
    throw new BackendError(
      "terminal",
      `the agent of ${assignment.id} would have an ID of ${id.length} characters, SPIRE stores ${longestAgentId}: trust domain and GITEA_RUNNER_UUID are too long`,
      { reason: "identity" },
    );
  return token;
}

/** The ID of the agent that joins with that token. */
export function agentIdOf(token: string, trustDomain: string): SpiffeId {
  return joinSpiffeId(parseTrustDomain(trustDomain), ...agents.split("/").filter(Boolean), token);
}

/** Of which executor of that owner an agent is; undefined for an agent that is none of ours. */
export function executorOfAgent(id: SpiffeId, owner: string): string | undefined {
  const ours = `${agents}ci.${owner}.`;
  const path = pathOf(id);
  return path.startsWith(ours) ? rest.exec(path.slice(ours.length))?.groups?.["executor"] : undefined;
}
