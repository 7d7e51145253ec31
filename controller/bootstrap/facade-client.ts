import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { type ConnectTransportOptions, createConnectTransport } from "@connectrpc/connect-node";
import { actionsPath, callHeaders } from "../assignment/executor-call.ts";
import { RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";

export type FacadeClient = Client<typeof RunnerService>;

/** How the transport reaches the facade: over a connection that checks who answers, made when it is needed. */
export type FacadeSessions = {
  readonly sessionManager: SessionManager;
  /** Lets the next call dial anew. */
  redial(): void;
};

type SessionManager = NonNullable<(ConnectTransportOptions & { httpVersion: "2" })["sessionManager"]>;

/** The connection to the facade. */
export type FacadeConnection = { readonly client: FacadeClient; redial(): void };

/** Whom we speak for, beside the SVID of the connection. */
export type Caller = {
  readonly assignmentId: string;
  readonly capability: string;
  /** Random, made at the start: the facade tells a repeated claim from a second one by it. */
  readonly instance: string;
};

/** A client of the facade at this address that says whom it speaks for in every call. */
export function createFacadeConnection(
  url: string,
  caller: Caller,
  sessions: FacadeSessions,
): FacadeConnection {
  const transport = createConnectTransport({
    baseUrl: new URL(actionsPath, url).href,
    httpVersion: "2",
    sessionManager: sessions.sessionManager,
    interceptors: [withCaller(caller)],
  });
  return { client: createClient(RunnerService, transport), redial: () => sessions.redial() };
}

function withCaller(caller: Caller): Interceptor {
  return (next) => (request) => {
    request.header.set(callHeaders.assignmentId, caller.assignmentId);
    request.header.set(callHeaders.capability, caller.capability);
    request.header.set(callHeaders.instance, caller.instance);
    return next(request);
  };
}
