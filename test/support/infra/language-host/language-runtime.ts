import {
  type sendUnaryData,
  type ServerUnaryCall,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import language from "@pulumi/pulumi/proto/language_pb.js";
import plugin from "@pulumi/pulumi/proto/plugin_pb.js";
import empty from "google-protobuf/google/protobuf/empty_pb.js";
import { runProgram } from "./run-program.ts";

/** Of the SDK's own program runner: it has told the engine already what is wrong. */
const toldExitCode = 32;

/**
 * As much of `pulumi-language-nodejs` as the engine needs for a program whose packages are installed; all else is
 * unimplemented: https://github.com/pulumi/pulumi/blob/master/proto/pulumi/language.proto
 */
export function languageRuntime(engineOnStart: string): UntypedServiceImplementation {
  let engine = engineOnStart;
  return {
    handshake: answer((request: InstanceType<typeof language.LanguageHandshakeRequest>) => {
      engine = request.getEngineAddress() || engine;
      return new language.LanguageHandshakeResponse();
    }),
    getPluginInfo: answer(() => new plugin.PluginInfo().setVersion("0.0.0")),
    // A program's providers are those that Pulumi.yaml names: nothing is to be fetched.
    getRequiredPackages: answer(() => new language.GetRequiredPackagesResponse()),
    run: answer(async (request: InstanceType<typeof language.RunRequest>) => {
      const code = await runProgram(request, engine);
      const response = new language.RunResponse();
      if (code === toldExitCode) return response.setBail(true);
      return code === 0 ? response : response.setError(`the program exited with code ${code}`);
    }),
    cancel: answer(() => new empty.Empty()),
  };
}

/** A handler of gRPC's form; what it throws is the call's error. */
function answer<Request, Response>(handle: (request: Request) => Response | Promise<Response>) {
  const settle = async (call: ServerUnaryCall<Request, Response>, done: sendUnaryData<Response>) => {
    try {
      done(null, await handle(call.request));
    } catch (error) {
      done({ code: status.UNKNOWN, details: String(error) });
    }
  };
  return (call: ServerUnaryCall<Request, Response>, done: sendUnaryData<Response>) => {
    void settle(call, done);
  };
}
