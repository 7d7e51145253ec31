import assert from "node:assert/strict";
import { z } from "zod";
import { builderId } from "./use-images.ts";
import type { PushedImage, Statement } from "./pushed-image.ts";

const spdx = z.object({
  packages: z.array(
    z.object({
      name: z.string(),
      versionInfo: z.string().default(""),
      externalRefs: z.array(z.object({ referenceLocator: z.string() })).default([]),
    }),
  ),
});

const provenance = z.object({
  buildDefinition: z.object({
    externalParameters: z.looseObject({}),
    internalParameters: z.looseObject({
      buildConfig: z.looseObject({ llbDefinition: z.array(z.unknown()).default([]) }).prefault({}),
    }),
    resolvedDependencies: z.array(
      z.object({ uri: z.string(), digest: z.record(z.string(), z.string()).default({}) }),
    ),
  }),
  runDetails: z.object({ builder: z.object({ id: z.string() }), metadata: z.looseObject({}) }),
});

/** The only statement of that type; it has to be about this image. */
function statementOf({ statements, digest }: PushedImage, type: RegExp): Statement {
  const found = statements.filter(({ predicateType }) => type.test(predicateType));
  assert.equal(found.length, 1, `statements of ${String(type)}`);
  const [statement] = found;
  assert.ok(statement !== undefined);
  assert.ok(statement.subject.length > 0, "a statement about nothing");
  for (const subject of statement.subject) assert.equal(`sha256:${subject.digest["sha256"]}`, digest);
  return statement;
}

/** The packages of the image's SBOM as package URLs without qualifiers, such as `pkg:npm/pino@10.4.0`. */
export function packagesOf(image: PushedImage): ReadonlySet<string> {
  const { packages } = spdx.parse(statementOf(image, /^https:\/\/spdx\.dev\/Document/).predicate);
  const urls = packages.flatMap(({ externalRefs }) => externalRefs.map((one) => one.referenceLocator));
  return new Set(urls.filter((url) => url.startsWith("pkg:")).map((url) => url.replace(/[?#].*$/, "")));
}

function provenanceOf(image: PushedImage): z.infer<typeof provenance> {
  return provenance.parse(statementOf(image, /^https:\/\/slsa\.dev\/provenance\/v1$/).predicate);
}

/** How many steps of the build the provenance tells of: none but in the mode `max`. */
export function stepsOf(image: PushedImage): number {
  return provenanceOf(image).buildDefinition.internalParameters.buildConfig.llbDefinition.length;
}

/** What the image was made of, by the digests in its provenance, which has to be of that builder: of us unless given. */
export function materialsOf(
  image: PushedImage,
  builder = builderId,
): readonly { readonly uri: string; readonly digest: string }[] {
  const { buildDefinition, runDetails } = provenanceOf(image);
  assert.equal(runDetails.builder.id, builder);
  return buildDefinition.resolvedDependencies.map(({ uri, digest }) => ({
    uri: decodeURIComponent(uri),
    digest: `sha256:${digest["sha256"] ?? ""}`,
  }));
}
