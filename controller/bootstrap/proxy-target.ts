import type { JsonObject } from "@bufbuild/protobuf";
import { actionsPath } from "../assignment/executor-call.ts";

/**
 * The Gitea that a task belongs to: what its own context says (`server_url`). Undefined when that is no http
 * or https address.
 */
export function serverOf(context: JsonObject | undefined): URL | undefined {
  const text = context?.["server_url"];
  const url = typeof text === "string" ? URL.parse(text) : null;
  return url?.protocol === "http:" || url?.protocol === "https:" ? url : undefined;
}

export type Target =
  | { readonly kind: "pass"; readonly path: string }
  | { readonly kind: "refuse"; readonly status: 400 | 403; readonly reason: string };

/**
 * Where a request to the loopback address goes. The path stays as it was written, below the path at which
 * Gitea is served. The runner protocol is not for jobs: whatever would reach it is refused, however it is
 * spelt.
 */
export function targetOf(server: URL, requestTarget: string): Target {
  if (!requestTarget.startsWith("/")) return { kind: "refuse", status: 400, reason: "not a path" };
  const segments = plainSegments(requestTarget.split(/[?#]/, 1)[0] ?? "");
  if (segments === undefined) return { kind: "refuse", status: 400, reason: "the path is not well-formed" };
  if (`/${segments.slice(0, 2).join("/")}`.toLowerCase() === actionsPath)
    return { kind: "refuse", status: 403, reason: "the runner protocol is not open to jobs" };
  return { kind: "pass", path: server.pathname.replace(/\/+$/, "") + requestTarget };
}

/** The segments as a server may come to read them: decoded, without empty, `.` and `..` ones. */
function plainSegments(path: string): readonly string[] | undefined {
  let decoded: string;
  try {
    decoded = decodeURIComponent(path);
  } catch {
    return undefined;
  }
  const segments: string[] = [];
  for (const segment of decoded.split(/[/\\]/)) {
    if (segment === "..") segments.pop();
    else if (segment !== "" && segment !== ".") segments.push(segment);
  }
  return segments;
}
