import { credentials, type ServiceError } from "@grpc/grpc-js";
import { ResourceProviderClient } from "@pulumi/pulumi/proto/provider_grpc_pb.js";
import provider from "@pulumi/pulumi/proto/provider_pb.js";
import struct from "google-protobuf/google/protobuf/struct_pb.js";
import { serveProvider } from "../../../infra/jetstream/serve.ts";

type Json = Parameters<typeof struct.Struct.fromJavaScript>[0];
type Callback<Response> = (error: ServiceError | null, response: Response) => void;

/** The provider, called as the engine does it: over gRPC, with URNs and structs. */
export type ProviderClient = AsyncDisposable & {
  configure(args: Json): Promise<void>;
  check(kind: string, olds: Json, news: Json): Promise<{ inputs: unknown; failures: readonly string[] }>;
  diff(kind: string, olds: Json, news: Json): Promise<Readonly<Record<string, string>>>;
  create(kind: string, news: Json, preview?: boolean): Promise<{ id: string; properties: unknown }>;
  read(kind: string, id: string, known?: Json): Promise<{ id: string; inputs: unknown }>;
  update(kind: string, id: string, olds: Json, news: Json): Promise<unknown>;
  delete(kind: string, id: string, known: Json): Promise<void>;
};

export async function startProvider(): Promise<ProviderClient> {
  const served = await serveProvider("1.2.3");
  const client = new ResourceProviderClient(`127.0.0.1:${served.port}`, credentials.createInsecure());
  /** Resources of other names are others, as in a program. */
  const urn = (kind: string, { stream = "", name = "", durable = "", bucket = "" }: Json = {}) =>
    `urn:pulumi:dev::project::platform:index:Platform$jetstream:index:${kind}::${JSON.stringify([stream, name, durable, bucket])}`;
  const asStruct = (from: Json) => struct.Struct.fromJavaScript(from);
  const call = <Response>(make: (done: Callback<Response>) => unknown) =>
    new Promise<Response>((resolve, reject) => {
      make((error, response) => (error === null ? resolve(response) : reject(new Error(error.details))));
    });
  const kinds = Object.fromEntries(
    Object.entries(provider.PropertyDiff.Kind).map(([name, number]) => [number, name]),
  );
  return {
    configure: async (args) => {
      const request = new provider.ConfigureRequest().setArgs(asStruct(args));
      await call<InstanceType<typeof provider.ConfigureResponse>>((done) => client.configure(request, done));
    },
    check: async (kind, olds, news) => {
      const request = new provider.CheckRequest()
        .setUrn(urn(kind, news))
        .setOlds(asStruct(olds))
        .setNews(asStruct(news));
      const answer = await call<InstanceType<typeof provider.CheckResponse>>((done) =>
        client.check(request, done),
      );
      const failures = answer.getFailuresList().map((one) => `${one.getProperty()}: ${one.getReason()}`);
      return { inputs: answer.getInputs()?.toJavaScript(), failures };
    },
    diff: async (kind, olds, news) => {
      const request = new provider.DiffRequest()
        .setUrn(urn(kind, news))
        .setOlds(asStruct(olds))
        .setNews(asStruct(news));
      const answer = await call<InstanceType<typeof provider.DiffResponse>>((done) =>
        client.diff(request, done),
      );
      const { DIFF_SOME: some } = provider.DiffResponse.DiffChanges;
      const details = answer.toObject().detaileddiffMap;
      if ((answer.getChanges() === some) !== details.length > 0)
        throw new Error("the parts of a diff differ");
      return Object.fromEntries(details.map(([name, one]) => [name, kinds[one.kind] ?? ""]));
    },
    create: async (kind, news, preview = false) => {
      const request = new provider.CreateRequest()
        .setUrn(urn(kind))
        .setProperties(asStruct(news))
        .setPreview(preview);
      const answer = await call<InstanceType<typeof provider.CreateResponse>>((done) =>
        client.create(request, done),
      );
      return { id: answer.getId(), properties: answer.getProperties()?.toJavaScript() };
    },
    read: async (kind, id, known = {}) => {
      const request = new provider.ReadRequest().setUrn(urn(kind)).setId(id).setProperties(asStruct(known));
      const answer = await call<InstanceType<typeof provider.ReadResponse>>((done) =>
        client.read(request, done),
      );
      return { id: answer.getId(), inputs: answer.getInputs()?.toJavaScript() };
    },
    update: async (kind, id, olds, news) => {
      const request = new provider.UpdateRequest()
        .setUrn(urn(kind))
        .setId(id)
        .setOlds(asStruct(olds))
        .setNews(asStruct(news));
      const answer = await call<InstanceType<typeof provider.UpdateResponse>>((done) =>
        client.update(request, done),
      );
      return answer.getProperties()?.toJavaScript();
    },
    delete: async (kind, id, known) => {
      const request = new provider.DeleteRequest().setUrn(urn(kind)).setId(id).setProperties(asStruct(known));
      await call((done) => client.delete(request, done));
    },
    [Symbol.asyncDispose]: async () => {
      client.close();
      await served[Symbol.asyncDispose]();
    },
  };
}
