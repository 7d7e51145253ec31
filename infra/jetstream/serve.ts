import { Server, type sendUnaryData, ServerCredentials, type ServerUnaryCall, status } from "@grpc/grpc-js";
import plugin from "@pulumi/pulumi/proto/plugin_pb.js";
import { ResourceProviderService } from "@pulumi/pulumi/proto/provider_grpc_pb.js";
import provider from "@pulumi/pulumi/proto/provider_pb.js";
import empty from "google-protobuf/google/protobuf/empty_pb.js";
import struct from "google-protobuf/google/protobuf/struct_pb.js";
import { type Connection, connectionInputs, createConnection } from "./connection.ts";
import { createEngineLog } from "./engine-log.ts";
import { isUnknown, plainProperties, type Properties } from "./property-values.ts";
import { createProvider, type PropertyChange } from "./provider.ts";

/** The engine's own limit. */
const maxMessageBytes = 400 * 1024 * 1024;

export type Served = AsyncDisposable & { readonly port: number };

/**
 * Serves the provider protocol on a free port of the loopback:
 * https://github.com/pulumi/pulumi/blob/master/proto/pulumi/provider.proto
 * A call that fails is told to the engine with its message; calls that this provider has no use for are unimplemented,
 * which the engine copes with. `engine` is where warnings go to, by its address.
 */
export async function serveProvider(version: string, engine?: string): Promise<Served> {
  let connection: Connection = createConnection({});
  const log = createEngineLog(engine);
  /** URNs that the state has, as far as we were told: a replacement is checked as if it were new, with the old one there. */
  const inState = new Set<string>();
  const resources = createProvider(() => connection.manager());
  const server = new Server({ "grpc.max_receive_message_length": maxMessageBytes });
  server.addService(ResourceProviderService, {
    handshake: answer(() =>
      new provider.ProviderHandshakeResponse().setAcceptSecrets(true).setAcceptResources(true),
    ),
    getPluginInfo: answer(() => new plugin.PluginInfo().setVersion(version)),
    cancel: answer(() => new empty.Empty()),
    getSchema: answer(() => new provider.GetSchemaResponse().setSchema(JSON.stringify(schema(version)))),
    checkConfig: answer(({ request }: Call<InstanceType<typeof provider.CheckRequest>>) => {
      const news = properties(request.getNews());
      return checkResponse(news, configFailures(news));
    }),
    diffConfig: answer(({ request }: Call<InstanceType<typeof provider.DiffRequest>>) => {
      const [from, to] = [request.getOlds(), request.getNews()].map((side) =>
        JSON.stringify(plainProperties(properties(side))),
      );
      return new provider.DiffResponse().setChanges(from === to ? unchanged : changed);
    }),
    configure: answer(async ({ request }: Call<InstanceType<typeof provider.ConfigureRequest>>) => {
      // The engine configures twice: first a default provider, with nothing.
      await connection.close();
      connection = createConnection(properties(request.getArgs()));
      return new provider.ConfigureResponse()
        .setAcceptsecrets(true)
        .setAcceptresources(true)
        .setSupportspreview(true);
    }),
    check: answer(async ({ request }: Call<InstanceType<typeof provider.CheckRequest>>) => {
      const urn = request.getUrn();
      const type = typeOf(urn);
      const olds = properties(request.getOlds());
      const before = Object.keys(olds).length === 0 ? undefined : olds;
      if (before !== undefined) inState.add(urn);
      const { inputs, failures } = resources.check(type, before, properties(request.getNews()));
      if (failures.length > 0 || inState.has(urn)) return checkResponse(inputs, failures);
      const { obstacles, unasked } = await resources.look(type, inputs);
      if (unasked !== undefined) await log.warn(urn, unasked);
      return checkResponse(inputs, obstacles);
    }),
    diff: answer(({ request }: Call<InstanceType<typeof provider.DiffRequest>>) => {
      const urn = request.getUrn();
      inState.add(urn);
      return diffResponse(
        resources.diff(typeOf(urn), properties(request.getOlds()), properties(request.getNews())),
      );
    }),
    create: answer(async ({ request }: Call<InstanceType<typeof provider.CreateRequest>>) => {
      const wanted = properties(request.getProperties());
      if (request.getPreview()) return new provider.CreateResponse().setProperties(asStruct(wanted));
      const made = await resources.create(typeOf(request.getUrn()), wanted);
      return new provider.CreateResponse().setId(made.id).setProperties(asStruct(made.properties));
    }),
    read: answer(async ({ request }: Call<InstanceType<typeof provider.ReadRequest>>) => {
      const known = properties(request.getProperties());
      const found = await resources.read(typeOf(request.getUrn()), request.getId(), known);
      const response = new provider.ReadResponse();
      if (found === undefined) return response;
      const now = asStruct(found.properties);
      return response.setId(found.id).setProperties(now).setInputs(now);
    }),
    update: answer(async ({ request }: Call<InstanceType<typeof provider.UpdateRequest>>) => {
      const wanted = properties(request.getNews());
      const made = request.getPreview()
        ? wanted
        : await resources.update(typeOf(request.getUrn()), request.getId(), wanted);
      return new provider.UpdateResponse().setProperties(asStruct(made));
    }),
    delete: answer(async ({ request }: Call<InstanceType<typeof provider.DeleteRequest>>) => {
      const known = properties(request.getProperties());
      await resources.delete(typeOf(request.getUrn()), request.getId(), known);
      return new empty.Empty();
    }),
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  return {
    port,
    [Symbol.asyncDispose]: async () => {
      server.forceShutdown();
      log.close();
      await connection.close();
    },
  };
}

type Call<Request> = Pick<ServerUnaryCall<Request, unknown>, "request">;

/** A handler of gRPC's form; what it throws is the call's error, with no stack trace. */
function answer<Request, Response>(handle: (call: Call<Request>) => Response | Promise<Response>) {
  const settle = async (call: Call<Request>, done: sendUnaryData<Response>) => {
    let response: Response;
    try {
      response = await handle(call);
    } catch (error) {
      done({ code: status.UNKNOWN, details: error instanceof Error ? error.message : String(error) });
      return;
    }
    done(null, response);
  };
  return (call: ServerUnaryCall<Request, Response>, done: sendUnaryData<Response>) => {
    void settle(call, done);
  };
}

const { DIFF_NONE: unchanged, DIFF_SOME: changed } = provider.DiffResponse.DiffChanges;

function checkResponse(
  inputs: Properties,
  failures: readonly { readonly property: string; readonly reason: string }[],
) {
  const told = failures.map(({ property, reason }) =>
    new provider.CheckFailure().setProperty(property).setReason(reason),
  );
  return new provider.CheckResponse().setInputs(asStruct(inputs)).setFailuresList(told);
}

function diffResponse(changes: readonly PropertyChange[]) {
  const response = new provider.DiffResponse()
    .setChanges(changes.length === 0 ? unchanged : changed)
    .setReplacesList(changes.filter(({ replaces }) => replaces).map(({ property }) => property))
    // Two of the same name, or with the same messages, cannot be side by side.
    .setDeletebeforereplace(true)
    .setDiffsList(changes.map(({ property }) => property))
    .setHasdetaileddiff(true);
  const { Kind } = provider.PropertyDiff;
  const kinds = {
    add: [Kind.ADD, Kind.ADD_REPLACE],
    delete: [Kind.DELETE, Kind.DELETE_REPLACE],
    update: [Kind.UPDATE, Kind.UPDATE_REPLACE],
  } as const;
  for (const { property, kind, replaces } of changes)
    response
      .getDetaileddiffMap()
      .set(property, new provider.PropertyDiff().setKind(kinds[kind][replaces ? 1 : 0]));
  return response;
}

function configFailures(news: Properties) {
  const parsed = connectionInputs.safeParse(plainProperties(news));
  const issues = parsed.success ? [] : parsed.error.issues;
  return issues
    .map(({ path, message }) => ({ property: String(path[0] ?? ""), reason: message }))
    .filter(({ property }) => !isUnknown(plainProperties(news)[property]));
}

/** `urn:pulumi:stack::project::parent$jetstream:index:Stream::name` */
function typeOf(urn: string): string {
  return urn.split("::")[2]?.split("$").at(-1) ?? "";
}

function properties(from: InstanceType<typeof struct.Struct> | undefined): Properties {
  return from?.toJavaScript() ?? {};
}

/** By way of JSON, which has no properties that are undefined. */
function asStruct(from: Properties) {
  return struct.Struct.fromJavaScript(JSON.parse(JSON.stringify(from)));
}

/** As little as an import asks for: programs use the classes in resources.ts. */
function schema(version: string) {
  const types = ["Stream", "Consumer", "KeyValue"].map((name) => [`jetstream:index:${name}`, {}] as const);
  return { name: "jetstream", version, resources: Object.fromEntries(types) };
}
