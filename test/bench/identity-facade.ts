import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { createFacadeHandler } from "../../controller/facade/handler.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createTlsServer } from "../../controller/spiffe/tls-server.ts";
import type { X509Svid } from "../../controller/spiffe/x509-svid.ts";
import { asSvid, createSettableSource } from "../controller/spiffe/settable-source.ts";
import { anAssignment } from "../support/builders.ts";
import { createFacadeUnderTest } from "../support/facade-under-test.ts";
import { createTestCa, issueLeaf } from "../support/test-pki.ts";

/** What the facade of the bench says once it listens, and after it was asked for its memory. */
export type FacadeSays =
  | { readonly kind: "listens"; readonly port: number; readonly facadeId: string; readonly svid: X509Svid }
  | { readonly kind: "memory"; readonly bytes: number; readonly sessions: number };

// The facade in a process of its own, with one assignment that has begun, for one client. Ends with its parent.
const facadeId = parseSpiffeId("spiffe://example.org/controller/facade");
const assignment = anAssignment();
const jobId = parseSpiffeId(assignment.spiffeId);
const ca = await createTestCa();
const limits = { sessions: 4096, sessionsPerPeer: 4096, connections: 8192, handshakesPerAddress: 4096 };
const source = createSettableSource(asSvid(facadeId, await issueLeaf(ca, facadeId), ca));
const tls = createTlsServer({ source, clock: systemClock, onRefused: console.error, limits });
const under = createFacadeUnderTest();
await under.started(assignment);
tls.server.on(
  "request",
  createFacadeHandler({
    ...under.options,
    peerOf: (session) => tls.peerOf(session),
    endSoon: (session) => {
      tls.endSoon(session);
    },
  }),
);
const { port } = await tls.listen({ host: "127.0.0.1", port: 0 });
const say = (message: FacadeSays) => process.send?.(message);
process.on("message", () => {
  globalThis.gc?.();
  say({ kind: "memory", bytes: process.memoryUsage().rss, sessions: tls.sessions() });
});
process.once("disconnect", () => process.exit());
say({ kind: "listens", port, facadeId, svid: asSvid(jobId, await issueLeaf(ca, jobId), ca) });
