import { credentials } from "@grpc/grpc-js";
import { EngineClient } from "@pulumi/pulumi/proto/engine_grpc_pb.js";
import engine from "@pulumi/pulumi/proto/engine_pb.js";

/** Messages that the engine shows beside a resource. */
export type EngineLog = {
  /** Resolves when it is told, or when nobody can be: a warning stops nothing. */
  warn(urn: string, message: string): Promise<void>;
  close(): void;
};

const deadlineMs = 5_000;

/** The log of the engine at that address; says nothing without one. */
export function createEngineLog(address: string | undefined): EngineLog {
  if (address === undefined || address === "")
    return { warn: () => Promise.resolve(), close: () => undefined };
  const client = new EngineClient(address, credentials.createInsecure());
  return {
    warn: (urn, message) => {
      const request = new engine.LogRequest()
        .setSeverity(engine.LogSeverity.WARNING)
        .setUrn(urn)
        .setMessage(message);
      return new Promise((resolve) => {
        const call = client.log(request, () => resolve());
        AbortSignal.timeout(deadlineMs).addEventListener("abort", () => call.cancel());
      });
    },
    close: () => client.close(),
  };
}
