import http2, { type ClientHttp2Session } from "node:http2";
import { actionsPath, callHeaders } from "../../controller/assignment/executor-call.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { exactly } from "../../controller/spiffe/authorize.ts";
import { createTlsDialer } from "../../controller/spiffe/tls-client.ts";
import type { X509Svid } from "../../controller/spiffe/x509-svid.ts";
import { facadeId } from "../../scripts/quick-start/identities.ts";

/** One connection to a facade that is kept as long as the facade lets it: never dialled anew, never with another SVID. */
export type HeldSession = Disposable & {
  /** What a call on it comes to: the facade's answer as `code: message`, or how HTTP/2 failed. */
  call(): Promise<string>;
  /** Resolves to the time when it was closed, from whichever side. */
  readonly closed: Promise<number>;
};

/** Opens it with this SVID, whatever its time. Calls name the assignment and show no capability. */
export function holdSession(facadeUrl: string, svid: X509Svid, assignmentId: string): HeldSession {
  const { hostname: host, port } = new URL(facadeUrl);
  const dial = createTlsDialer({
    source: { current: () => svid },
    authorize: exactly(facadeId),
    clock: systemClock,
    host,
    port: Number(port),
  });
  const session = http2.connect(facadeUrl, { createConnection: dial });
  // What it was is the answer to the call.
  session.on("error", () => undefined);
  const closed = new Promise<number>((resolve) => session.once("close", () => resolve(systemClock.now())));
  return {
    call: () => call(session, assignmentId),
    closed,
    [Symbol.dispose]: () => {
      session.destroy();
    },
  };
}

/** Declare, which the facade answers without Gitea. */
function call(session: ClientHttp2Session, assignmentId: string): Promise<string> {
  return new Promise((resolve) => {
    const failed = (error: NodeJS.ErrnoException) => resolve(`http2: ${error.code ?? error.message}`);
    try {
      const stream = session.request({
        ":method": "POST",
        ":path": `${actionsPath}/runner.v1.RunnerService/Declare`,
        "content-type": "application/json",
        [callHeaders.assignmentId]: assignmentId,
      });
      let body = "";
      stream.setEncoding("utf8").on("data", (text: string) => (body += text));
      stream.once("error", failed).once("close", () => resolve(answer(body)));
      stream.end("{}");
    } catch (error) {
      failed(error as NodeJS.ErrnoException);
    }
  });
}

function answer(body: string): string {
  if (body === "") return "http2: no answer";
  const { code = "ok", message = "" } = JSON.parse(body) as { code?: string; message?: string };
  return `${code}: ${message}`;
}
