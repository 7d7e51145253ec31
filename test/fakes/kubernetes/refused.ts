import { qualified, type Resource, type Target } from "./resources.ts";

/** What the fake answers instead of what was asked for. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly status: number;
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}) {
    super(`HTTP ${status}`);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

/** A `Status` as the API server writes it. */
export function statusOf(code: number, reason: string, message: string, details?: object): object {
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    reason,
    ...(details === undefined ? {} : { details }),
    code,
  };
}

export function notFound(resource: Resource, name: string): Refused {
  const message = `${qualified(resource)} "${name}" not found`;
  return new Refused(404, statusOf(404, "NotFound", message, detailsOf(resource, name)));
}

export function alreadyExists(resource: Resource, name: string): Refused {
  const message = `${qualified(resource)} "${name}" already exists`;
  return new Refused(409, statusOf(409, "AlreadyExists", message, detailsOf(resource, name)));
}

export function conflict(resource: Resource, name: string, why: string): Refused {
  const message = `Operation cannot be fulfilled on ${qualified(resource)} "${name}": ${why}`;
  return new Refused(409, statusOf(409, "Conflict", message, detailsOf(resource, name)));
}

export function stale(resource: Resource, name: string): Refused {
  return conflict(
    resource,
    name,
    "the object has been modified; please apply your changes to the latest version and try again",
  );
}

export function otherUid(resource: Resource, name: string, wanted: string, there: string): Refused {
  return conflict(
    resource,
    name,
    `Precondition failed: UID in precondition: ${wanted}, UID in object meta: ${there}`,
  );
}

export function expired(message: string): Refused {
  return new Refused(410, statusOf(410, "Expired", message));
}

export function badRequest(message: string): Refused {
  return new Refused(400, statusOf(400, "BadRequest", message));
}

export function invalid({ kind, group }: Resource, name: string, field: string, why: string): Refused {
  const message = `${group === "" ? kind : `${kind}.${group}`} "${name}" is invalid: ${field}: ${why}`;
  const causes = [{ reason: "FieldValueInvalid", message: why, field }];
  return new Refused(422, statusOf(422, "Invalid", message, { name, kind, group, causes }));
}

export function forbidden({ resource, namespace, name = "" }: Target, user: string, verb: string): Refused {
  const named = name === "" ? qualified(resource) : `${qualified(resource)} "${name}"`;
  const where = namespace === undefined ? "at the cluster scope" : `in the namespace "${namespace}"`;
  const message = `${named} is forbidden: User "${user}" cannot ${verb} resource "${resource.name}" in API group "${resource.group}" ${where}`;
  return new Refused(403, statusOf(403, "Forbidden", message, detailsOf(resource, name)));
}

export function unauthorized(): Refused {
  return new Refused(401, statusOf(401, "Unauthorized", "Unauthorized"));
}

/** What the server itself answers where it has nothing. */
export function noSuchPath(): Refused {
  return new Refused(404, "404 page not found\n");
}

function detailsOf({ group, name: kind }: Resource, name: string): object {
  return { ...(name === "" ? {} : { name }), ...(group === "" ? {} : { group }), kind };
}
