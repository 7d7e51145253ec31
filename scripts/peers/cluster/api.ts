import { readFile } from "node:fs/promises";
import { Agent, request } from "node:https";
import { text } from "node:stream/consumers";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { KeyFiles } from "./certificates.ts";

export type KubernetesObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly [key: string]: unknown;
  };
  readonly [key: string]: unknown;
};

export type ApiAnswer = { readonly status: number; readonly text: string };

/** The cluster's API as its administrator. Everything rejects when no answer comes within 30 s. */
export type ClusterApi = Disposable & {
  /** Whatever the answer is. A body is JSON; `type` says of which kind a patch is. */
  ask(
    method: string,
    path: string,
    signal: AbortSignal,
    content?: { readonly body: unknown; readonly type?: string },
  ): Promise<ApiAnswer>;
  /** The parsed answer to a GET. Rejects with what the server says when that is not 200. */
  read(path: string, signal: AbortSignal): Promise<KubernetesObject>;
  /** Makes an object at its collection's path; one of that name that is there already is left as it is. */
  ensure(collection: string, object: KubernetesObject, signal: AbortSignal): Promise<void>;
  /** The parsed answer to a POST. Rejects with what the server says when that is not 200 or 201. */
  create(collection: string, object: unknown, signal: AbortSignal): Promise<KubernetesObject>;
  /** Changes what stands at a path by a JSON merge patch. Rejects with what the server says when that is not 200. */
  merge(path: string, patch: object, signal: AbortSignal): Promise<void>;
  /** What is gone is no error. */
  remove(path: string, signal: AbortSignal): Promise<void>;
};

const answerMs = 30_000;

/** `server` as in `https://10.251.0.2:6443`. */
export async function openClusterApi(server: string, ca: string, admin: KeyFiles): Promise<ClusterApi> {
  const [caPem, cert, key] = await Promise.all(
    [ca, admin.certificate, admin.key].map((file) => readFile(file, "utf8")),
  );
  const agent = new Agent({ keepAlive: true, ca: caPem, cert, key });
  const ask: ClusterApi["ask"] = async (method, path, signal, content) => {
    const type = content?.type ?? "application/json";
    const either = AbortSignal.any([signal, AbortSignal.timeout(answerMs)]);
    const headers = content === undefined ? {} : { "content-type": type };
    either.throwIfAborted();
    const sent = request(new URL(path, server), { method, agent, headers, signal: either });
    sent.on("error", () => {
      // Heard below; after an abort nobody else listens.
    });
    sent.end(content === undefined ? undefined : JSON.stringify(content.body));
    try {
      const [answer] = (await once(sent, "response", { signal: either })) as [IncomingMessage];
      return { status: answer.statusCode ?? 0, text: await text(answer) };
    } catch (error) {
      either.throwIfAborted();
      throw error;
    }
  };
  const expect = async (wanted: readonly number[], ...question: Parameters<typeof ask>) => {
    const { status, text: said } = await ask(...question);
    if (wanted.includes(status)) return said;
    throw new Error(`${question[0]} ${question[1]}: ${status} ${said.slice(0, 500)}`);
  };
  const post = async (wanted: readonly number[], path: string, body: unknown, signal: AbortSignal) =>
    await expect(wanted, "POST", path, signal, { body });
  return {
    ask,
    read: async (path, signal) => JSON.parse(await expect([200], "GET", path, signal)) as KubernetesObject,
    create: async (collection, object, signal) =>
      JSON.parse(await post([200, 201], collection, object, signal)) as KubernetesObject,
    ensure: async (collection, object, signal) => {
      await post([200, 201, 409], collection, object, signal);
    },
    merge: async (path, patch, signal) => {
      const content = { body: patch, type: "application/merge-patch+json" };
      await expect([200], "PATCH", path, signal, content);
    },
    remove: async (path, signal) => {
      await expect([200, 202, 404], "DELETE", path, signal);
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}
