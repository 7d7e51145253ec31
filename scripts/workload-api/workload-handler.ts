import { X509Certificate } from "node:crypto";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { SpiffeWorkloadAPI } from "../../proto/gen/spiffe/workload_pb.ts";
import type { SpiffeId } from "../../controller/identity/spiffe-id.ts";
import type { Clock } from "../../controller/platform/clock.ts";
import { createRpcListener } from "../../controller/platform/rpc-listener.ts";
import type { Authority } from "./authority.ts";
import { issueX509Svid } from "./certificates.ts";
import { issueJwtSvid } from "./jwt.ts";

export type WorkloadHandlerOptions = {
  readonly authority: Authority;
  readonly spiffeId: SpiffeId;
  readonly svidTtlMs: number;
  readonly clock: Clock;
};

/**
 * The Workload API for one workload, as a request listener of node:http2. Each stream gets a new SVID at half of the
 * life of the one before. When `removed` is aborted all of its calls end with PermissionDenied, as SPIRE does it.
 */
export function createWorkloadHandler(options: WorkloadHandlerOptions, removed: AbortSignal) {
  const { authority, spiffeId, svidTtlMs, clock } = options;
  const bundle = new X509Certificate(authority.caCertificatePem).raw;
  const issue = async () => {
    const { certificateDer, keyDer } = await issueX509Svid(authority, spiffeId, svidTtlMs, clock.now());
    return { svids: [{ spiffeId, x509Svid: certificateDer, x509SvidKey: keyDer, bundle }] };
  };
  return createRpcListener({
    connect: false,
    grpcWeb: false,
    interceptors: [requireSecurityHeader],
    routes: (router) => {
      router.service(SpiffeWorkloadAPI, {
        async *fetchX509SVID(_request, { signal }) {
          const over = AbortSignal.any([signal, removed]);
          while (!over.aborted) {
            yield await issue();
            await clock.sleep(svidTtlMs / 2, over).catch(() => {});
          }
          if (removed.aborted) throw denied();
        },
        fetchJWTSVID: (request) => {
          if (removed.aborted) throw denied();
          if (request.audience.length === 0) {
            throw new ConnectError("audience must be specified", Code.InvalidArgument);
          }
          if (request.spiffeId !== "" && request.spiffeId !== spiffeId) throw denied();
          return {
            svids: [{ spiffeId, svid: issueJwtSvid(authority, spiffeId, request.audience, clock.now()) }],
          };
        },
      });
    },
  });
}

const requireSecurityHeader: Interceptor = (next) => (request) => {
  if (request.header.get("workload.spiffe.io") !== "true") {
    throw new ConnectError("security header missing from request", Code.InvalidArgument);
  }
  return next(request);
};

function denied(): ConnectError {
  return new ConnectError("no identity issued", Code.PermissionDenied);
}
