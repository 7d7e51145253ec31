import { z } from "zod";

/** What a manifest or index points to. */
const descriptor = z.object({
  digest: z.string(),
  size: z.number(),
  mediaType: z.string(),
  annotations: z.record(z.string(), z.string()).default({}),
  platform: z.object({ os: z.string(), architecture: z.string() }).optional(),
});
export type Descriptor = z.infer<typeof descriptor>;

const indexSchema = z.object({ manifests: z.array(descriptor) });
const manifestSchema = z.object({ config: descriptor, layers: z.array(descriptor) });
const configSchema = z.object({
  config: z.object({
    User: z.string().default(""),
    Env: z.array(z.string()),
    Entrypoint: z.array(z.string()),
    WorkingDir: z.string().default("/"),
    Labels: z.record(z.string(), z.string()).default({}),
    Volumes: z.record(z.string(), z.object({})).default({}),
  }),
});
export type ImageConfig = z.infer<typeof configSchema>["config"];

const statementSchema = z.object({
  predicateType: z.string(),
  subject: z.array(z.object({ name: z.string(), digest: z.record(z.string(), z.string()) })),
  predicate: z.unknown(),
});
export type Statement = z.infer<typeof statementSchema>;

/** One platform's image of a registry, with what is attested about it. */
export type PushedImage = {
  /** Of the platform's manifest: the same sources give the same. */
  readonly digest: string;
  readonly config: ImageConfig;
  /** As it lies in the registry: history and all. */
  readonly configText: string;
  readonly layers: readonly Descriptor[];
  /** Bytes as they are pulled. */
  readonly size: number;
  readonly statements: readonly Statement[];
  blob(digest: string): Promise<Response>;
};

const accept = ["index", "manifest"].map((kind) => `application/vnd.oci.image.${kind}.v1+json`).join(", ");

/** Reads it as a cluster would pull it; `digest` is of an index with attestations, of a manifest without; `more` are headers. */
export async function readPushed(
  registry: string,
  repository: string,
  digest: string,
  more: Readonly<Record<string, string>> = {},
): Promise<PushedImage> {
  const get = async (what: string): Promise<Response> => {
    const answer = await fetch(`${registry}/v2/${repository}/${what}`, { headers: { accept, ...more } });
    if (!answer.ok) throw new Error(`${what} of ${repository}: ${answer.status} ${await answer.text()}`);
    return answer;
  };
  const json = async (what: string): Promise<unknown> => await (await get(what)).json();
  const top = await json(`manifests/${digest}`);
  const index = indexSchema.safeParse(top);
  const manifests = index.success ? index.data.manifests : [];
  const isAttestation = ({ annotations }: Descriptor) =>
    annotations["vnd.docker.reference.type"] === "attestation-manifest";
  const platform = index.success ? manifests.find((one) => !isAttestation(one))?.digest : digest;
  if (platform === undefined) throw new Error(`${repository}@${digest} has no image`);
  const { config, layers } = manifestSchema.parse(await json(`manifests/${platform}`));
  const statements: Statement[] = [];
  for (const one of manifests.filter(isAttestation)) {
    if (one.annotations["vnd.docker.reference.digest"] !== platform) continue;
    const attested = manifestSchema.parse(await json(`manifests/${one.digest}`));
    for (const layer of attested.layers)
      statements.push(statementSchema.parse(await json(`blobs/${layer.digest}`)));
  }
  const configText = await (await get(`blobs/${config.digest}`)).text();
  return {
    digest: platform,
    config: configSchema.parse(JSON.parse(configText)).config,
    configText,
    layers,
    size: layers.reduce((sum, { size }) => sum + size, config.size),
    statements,
    blob: (blob) => get(`blobs/${blob}`),
  };
}
