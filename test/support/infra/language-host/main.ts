import { Server, ServerCredentials } from "@grpc/grpc-js";
import { LanguageRuntimeService } from "@pulumi/pulumi/proto/language_grpc_pb.js";
import { languageRuntime } from "./language-runtime.ts";

// The engine starts this with flags and its own address, reads the port from the first line, and ends us when it is done.
const server = new Server({ "grpc.max_receive_message_length": 400 * 1024 * 1024 });
server.addService(LanguageRuntimeService, languageRuntime(process.argv.at(-1) ?? ""));
const port = await new Promise<number>((resolve, reject) => {
  server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
    error === null ? resolve(bound) : reject(error),
  );
});
process.stdout.write(`${port}\n`);
