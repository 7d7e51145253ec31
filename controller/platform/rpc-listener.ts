import {
  type ConnectRouter,
  type ConnectRouterOptions,
  type ContextValues,
  createConnectRouter,
} from "@connectrpc/connect";
import {
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";

type Handler = ConnectRouter["handlers"][number];
/** Of node:http or node:http2. */
export type RpcRequest = Parameters<typeof universalRequestFromNodeRequest>[0];
export type RpcResponse = Parameters<typeof universalResponseToNodeResponse>[1];

export type RpcListenerOptions = ConnectRouterOptions & {
  readonly routes: (router: ConnectRouter) => void;
  /** Stands before the path of each call. */
  readonly requestPathPrefix?: string;
  readonly contextValues?: (request: RpcRequest) => ContextValues;
  /** Called for a request of which no call can be made, before it is answered with 400. */
  readonly onUnreadable?: (request: RpcRequest, error: unknown) => void;
  /** Called when an answer could not be written: most often its caller has hung up. */
  readonly onUnanswered?: (error: unknown) => void;
};

/**
 * Serves the calls of a router as a request listener; any other path is answered with 404. In the place of
 * connectNodeAdapter, which makes a URL of `:authority` or Host outside of all error handling, so that one request with a
 * name like `[` ends the process, and which writes to the console, in many lines, whenever a caller hangs up.
 */
export function createRpcListener(
  options: RpcListenerOptions,
): (request: RpcRequest, response: RpcResponse) => void {
  const { routes, requestPathPrefix = "", contextValues, onUnreadable, onUnanswered, ...more } = options;
  const router = createConnectRouter({ acceptCompression: [compressionGzip, compressionBrotli], ...more });
  routes(router);
  const handlers = new Map(
    router.handlers.map((handler) => [requestPathPrefix + handler.requestPath, handler]),
  );
  const callOf = (request: RpcRequest, response: RpcResponse) => {
    try {
      return universalRequestFromNodeRequest(request, response, undefined, contextValues?.(request));
    } catch (error) {
      onUnreadable?.(request, error);
      return undefined;
    }
  };
  return (request, response) => {
    const handler = handlers.get((request.url ?? "").split("?", 1)[0] ?? "");
    if (handler === undefined) return refuse(response, 404);
    const call = callOf(request, response);
    if (call === undefined) return refuse(response, 400);
    void answer(handler, call, response, onUnanswered);
  };
}

async function answer(
  handler: Handler,
  call: Parameters<Handler>[0],
  response: RpcResponse,
  onUnanswered: RpcListenerOptions["onUnanswered"],
): Promise<void> {
  try {
    await universalResponseToNodeResponse(await handler(call), response);
  } catch (error) {
    onUnanswered?.(error);
  }
}

function refuse(response: RpcResponse, status: number): void {
  response.writeHead(status);
  response.end();
}
