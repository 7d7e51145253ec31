import { createPublicKey, randomUUID, verify, webcrypto } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { z } from "zod";
import type { TestCa } from "../test-pki.ts";

export type TokenServiceOptions = {
  /** Signs the registry's tokens. */
  readonly signer: TestCa;
  /** The trust domain's keys for JWT-SVIDs, as `spire-server bundle show -format spiffe` prints them. */
  readonly bundle: string;
  /** Whose JWT-SVIDs are taken. */
  readonly admitted: string;
  /** Those that they may write to. */
  readonly repositories: readonly string[];
  /** Where it listens; on loopback unless given. */
  readonly address?: string;
};

/** Gives a registry's tokens to those who log in as `zot` with a JWT-SVID for audience `zot`. */
export type RunningTokenService = AsyncDisposable & {
  readonly realm: string;
  readonly service: string;
  readonly issuer: string;
  /** What became of each request: `granted`, or why not. */
  readonly answers: readonly string[];
  /** A token for whoever reads here. */
  tokenToRead(repository: string): Promise<string>;
};

const audience = "zot";
const service = "images-registry";
const issuer = "images-tokens";
const bundleSchema = z.object({
  keys: z.array(z.looseObject({ use: z.string(), kid: z.string().default("") })),
});
const headerSchema = z.object({ alg: z.enum(["ES256", "RS256"]), kid: z.string() });
const claimsSchema = z.object({
  sub: z.string(),
  exp: z.number(),
  aud: z.union([z.string().transform((one) => [one]), z.array(z.string())]),
});

/** Starts it, without TLS. */
export async function startTokenService(options: TokenServiceOptions): Promise<RunningTokenService> {
  const { signer, repositories, address = "127.0.0.1" } = options;
  const answers: string[] = [];
  const tokenFor = async (subject: string, access: readonly object[]) => {
    const now = Math.floor(Date.now() / 1000);
    const head = { typ: "JWT", alg: "ES256", x5c: [Buffer.from(signer.der).toString("base64")] };
    const times = { iat: now, nbf: now - 10, exp: now + 300 };
    const claims = { iss: issuer, sub: subject, aud: service, jti: randomUUID(), access, ...times };
    const signed = [head, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"));
    const algorithm = { name: "ECDSA", hash: "SHA-256" };
    const signature = await webcrypto.subtle.sign(
      algorithm,
      signer.privateKey,
      Buffer.from(signed.join(".")),
    );
    return `${signed.join(".")}.${Buffer.from(signature).toString("base64url")}`;
  };
  const answer = async (request: IncomingMessage): Promise<{ status: number; body: object }> => {
    const { user, password, scopes } = await credentials(request);
    const fault = user === audience ? whyRefused(password, options) : `user ${user}`;
    answers.push(fault ?? "granted");
    if (fault !== undefined)
      return { status: 401, body: { errors: [{ code: "UNAUTHORIZED", message: fault }] } };
    // It is asked for other repositories of the same build, too: those get nothing, and no refusal.
    const access = scopes.filter(({ name }) => repositories.includes(name));
    const token = await tokenFor(user, access);
    return { status: 200, body: { token, access_token: token, expires_in: 300 } };
  };
  const server = createServer((request, response) => {
    void answer(request).then(
      ({ status, body }) =>
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body)),
      () => response.writeHead(500).end(),
    );
  });
  server.listen(0, address);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    realm: `http://${address}:${port}/token`,
    service,
    issuer,
    answers,
    tokenToRead: (name) => tokenFor("reader", [{ type: "repository", name, actions: ["pull"] }]),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** `docker login` asks with GET and Basic, BuildKit with POST and a form. */
async function credentials(request: IncomingMessage) {
  const url = new URL(request.url ?? "", "http://tokens");
  const form = new URLSearchParams(await text(request));
  const basic = Buffer.from(
    (request.headers.authorization ?? "").replace(/^Basic /, ""),
    "base64",
  ).toString();
  const [, name = "", secret = ""] = /^([^:]*):(.*)$/s.exec(basic) ?? [];
  const asked = [...url.searchParams.getAll("scope"), ...form.getAll("scope")];
  return {
    user: form.get("username") ?? name,
    password: form.get("password") ?? secret,
    scopes: asked.flatMap((scope) => scope.split(" ")).flatMap(readScope),
  };
}

/** As in `repository:acme/controller:pull,push`. */
function readScope(scope: string) {
  const [, type = "", name = "", actions = ""] = /^([^:]+):(.+):([^:]*)$/.exec(scope) ?? [];
  return type === "" ? [] : [{ type, name, actions: actions.split(",") }];
}

/** Undefined for a JWT-SVID of the one who is admitted, for our audience, signed by the trust domain, and not over. */
function whyRefused(token: string, { bundle, admitted }: TokenServiceOptions): string | undefined {
  const [head = "", body = "", signature = ""] = token.split(".");
  const decode = (part: string): unknown => JSON.parse(Buffer.from(part, "base64url").toString());
  try {
    const { alg, kid } = headerSchema.parse(decode(head));
    const claims = claimsSchema.parse(decode(body));
    const { keys } = bundleSchema.parse(JSON.parse(bundle));
    const jwk = keys.find((key) => key.use === "jwt-svid" && key.kid === kid);
    if (jwk === undefined) return "signed by nobody whom we know";
    const key = createPublicKey({ key: jwk, format: "jwk" });
    const how = alg === "ES256" ? ({ key, dsaEncoding: "ieee-p1363" } as const) : key;
    const signed = Buffer.from(`${head}.${body}`);
    if (!verify("sha256", signed, how, Buffer.from(signature, "base64url"))) return "a wrong signature";
    if (!claims.aud.includes(audience)) return "for another audience";
    if (claims.exp * 1000 < Date.now()) return "over";
    return claims.sub === admitted ? undefined : `${claims.sub} may not`;
  } catch {
    return "no JWT";
  }
}
