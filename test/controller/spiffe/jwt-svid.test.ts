import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, it } from "mocha";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { fetchJwtSvid } from "../../../controller/spiffe/jwt-svid.ts";
import { createWorkloadClient } from "../../../controller/spiffe/workload-client.ts";
import { createFakeWorkloadApi, type FakeWorkloadApi } from "../../fakes/fake-workload-api.ts";

const id = parseSpiffeId("spiffe://example.org/ci/owner/repo/build");
const audience = "registry.example.org";

const token = (claims: object) =>
  [{ alg: "ES256" }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".") + ".c2ln";

describe("JWT-SVID", () => {
  let api: FakeWorkloadApi;
  let resources: AsyncDisposableStack;
  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    const folder = await mkdtemp(path.join(tmpdir(), "jwt-svid-"));
    resources.defer(() => rm(folder, { recursive: true }));
    api = resources.use(createFakeWorkloadApi(path.join(folder, "api.sock")));
    await api.start();
  });
  afterEach(() => resources.disposeAsync());

  const fetch = (signal = new AbortController().signal) => {
    const client = resources.use(createWorkloadClient(api.endpoint));
    return fetchJwtSvid({ client, audience, expectedId: id, timeoutMs: 10_000 }, signal);
  };

  it("is asked for with its audience and ID, and picked by its ID", async () => {
    const mine = token({ sub: id, aud: [audience], exp: 1_800_000_000 });
    api.jwt = (request) => {
      assert.deepEqual([request.audience, request.spiffeId], [[audience], id]);
      const other = { spiffeId: "spiffe://example.org/other", svid: token({}) };
      return { svids: [other, { spiffeId: id, svid: mine }] };
    };
    assert.deepEqual(await fetch(), { id, token: mine, expiresAt: 1_800_000_000_000 });
  });

  it("may name its audience as a single text", async () => {
    api.jwt = () => ({ svids: [{ spiffeId: id, svid: token({ sub: id, aud: audience, exp: 1 }) }] });
    assert.equal((await fetch()).expiresAt, 1000);
  });

  const useless: readonly (readonly [string, string, RegExp])[] = [
    [
      "of another subject",
      token({ sub: "spiffe://example.org/b", aud: [audience], exp: 1 }),
      /is no token of/,
    ],
    ["of another audience", token({ sub: id, aud: ["x"], exp: 1 }), /is no token of/],
    ["without expiry", token({ sub: id, aud: [audience] }), /is no token of/],
    ["garbage", "garbage", /is no token of/],
  ];
  for (const [what, svid, message] of useless) {
    it(`is refused if it is ${what}`, async () => {
      api.jwt = () => ({ svids: [{ spiffeId: id, svid }] });
      await assert.rejects(fetch(), message);
    });
  }

  it("is missed if the Workload API gives none for the ID", async () => {
    api.jwt = () => ({ svids: [] });
    await assert.rejects(
      fetch(),
      /no JWT-SVID for spiffe:\/\/example\.org\/ci\/owner\/repo\/build from unix:/,
    );
  });

  it("passes on the Workload API's own refusal", async () => {
    await assert.rejects(
      fetch(),
      (error) => error instanceof ConnectError && error.code === Code.PermissionDenied,
    );
  });
});
