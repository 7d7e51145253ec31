import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { create } from "@bufbuild/protobuf";
import { createSpireEntries, type SpireEntries } from "../../controller/backends/local/spire-entries.ts";
import type { SpireServer } from "../../controller/backends/local/spire-command.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createWorkloadClient } from "../../controller/spiffe/workload-client.ts";
import { openX509Source } from "../../controller/spiffe/x509-source.ts";
import { readX509Svid, type X509Svid } from "../../controller/spiffe/x509-svid.ts";
import { X509SVIDResponseSchema } from "../../proto/gen/spiffe/workload_pb.ts";
import type { Spire } from "../../scripts/peers/start-spire.ts";
import { facadeId } from "../../scripts/quick-start/identities.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { eventually } from "./eventually.ts";
import type { PlatformUnderTest } from "./platform.ts";
import { runAs } from "./run-as.ts";

const { signal } = new AbortController();

/** The SPIRE of a platform that was started with one; asked for only once the platform stands. */
export type RealSpire = {
  readonly spire: () => Spire;
  readonly server: () => SpireServer;
  readonly entries: () => SpireEntries;
  /** The entries that the controller has made and not removed. */
  readonly ours: () => ReturnType<SpireEntries["below"]>;
  /** The spire-agent that executors find on their PATH, which everybody may run. */
  readonly agentProgram: () => Promise<string>;
  /** The X.509-SVID that a process of this uid gets now: what somebody has who got hold of it once. */
  readonly stolenSvid: (uid: number, id: string) => Promise<X509Svid>;
  /** The facade's SVID, as the controller gets it. */
  readonly facadeSource: () => Promise<FacadeSource>;
};

export type FacadeSource = AsyncDisposable & {
  current(): X509Svid;
  until(what: string, fits: (svid: X509Svid) => boolean): Promise<void>;
};

export function spireOf(real: PlatformUnderTest): RealSpire {
  const spire = () => {
    const started = real.platform.spire;
    assert.ok(started !== undefined);
    return started;
  };
  const server = () => ({
    serverBinary: spire().peers.spireServer.binary,
    serverSocket: spire().serverSocket,
  });
  const entries = () => createSpireEntries(server());
  const agentProgram = async () => {
    const programs = path.join(real.platform.folder, "state/program");
    const [staged = ""] = await readdir(programs);
    return path.join(programs, staged, "bin/spire-agent");
  };
  return {
    spire,
    server,
    entries,
    agentProgram,
    ours: async () =>
      (await entries().below(spire().parentId, signal)).filter(({ id }) => id.startsWith("ci.")),
    stolenSvid: async (uid, id) => {
      const question = ["api", "fetch", "x509", "-output", "json", "-socketPath", spire().agentSocket];
      const { code, stdout, stderr } = await runAs(uid, await agentProgram(), question);
      assert.equal(code, 0, stderr);
      const answer = JSON.parse(stdout) as { svids: Record<string, string>[] };
      const bytes = (text = "") => Buffer.from(text, "base64");
      const svids = answer.svids.map((one) => ({
        spiffeId: one["spiffe_id"] ?? "",
        x509Svid: bytes(one["x509_svid"]),
        x509SvidKey: bytes(one["x509_svid_key"]),
        bundle: bytes(one["bundle"]),
      }));
      const message = create(X509SVIDResponseSchema, { svids });
      const verdict = readX509Svid(message, parseSpiffeId(id), Date.now());
      assert.ok(verdict.ok, verdict.ok ? "" : verdict.reason);
      return verdict.svid;
    },
    facadeSource: async () => {
      const client = createWorkloadClient({ kind: "unix", path: spire().agentSocket });
      const common = { clock: systemClock, random: Math.random, log: createRecordingLogger() };
      const wanted = { client, expectedId: facadeId, readyTimeoutMs: 60_000, ...common };
      const source = await openX509Source(wanted, signal);
      return {
        current: () => source.current(),
        until: (what, fits) => eventually(what, () => fits(source.current())),
        [Symbol.asyncDispose]: async () => {
          await source.close();
          client[Symbol.dispose]();
        },
      };
    },
  };
}

/** Which CA has signed it, as PEM. */
export function issuerOf({ certificatePem, bundlePem }: X509Svid): string | undefined {
  const leaf = new X509Certificate(certificatePem);
  return bundlePem.find((pem) => {
    const ca = new X509Certificate(pem);
    return leaf.checkIssued(ca) && leaf.verify(ca.publicKey);
  });
}
