import { createSocket } from "node:dgram";
import { once } from "node:events";
import { z } from "zod";
import type { ClusterApi } from "../../../scripts/peers/cluster/api.ts";

const slices = z.object({
  items: z.array(
    z.object({
      endpoints: z
        .array(
          z.object({
            addresses: z.array(z.string()),
            conditions: z.object({ ready: z.boolean().optional() }),
          }),
        )
        .nullish(),
    }),
  ),
});

const answerMs = 5000;
const types = { address: 1, internet: 1 } as const;
const responseCodes = { none: 0, noSuchName: 3 } as const;
/** A response, with authority, recursion asked for and to be had. */
const responseFlags = 0x8580;
const headerBytes = 12;

/**
 * Tells Pods the addresses of headless Services, at the port of DNS (RFC 1035), as a cluster's own would: those of the
 * endpoints that are ready. It knows no other names, and of no other records.
 */
export async function serveServiceNames(api: ClusterApi, address: string): Promise<AsyncDisposable> {
  const socket = createSocket("udp4");
  socket.on("message", (query, { port, address: to }) => {
    // Who gets no answer asks again.
    void answer(api, query).then(
      (response) => socket.send(response, port, to),
      () => undefined,
    );
  });
  socket.bind(53, address);
  await once(socket, "listening");
  return {
    [Symbol.asyncDispose]: async () => {
      socket.close();
      await once(socket, "close");
    },
  };
}

async function answer(api: ClusterApi, query: Buffer): Promise<Buffer> {
  const { name, type, end } = question(query);
  const found = await addressesOf(api, name);
  const records = type === types.address ? (found ?? []).map(addressRecord) : [];
  const header = Buffer.alloc(headerBytes);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(
    responseFlags | (found === undefined ? responseCodes.noSuchName : responseCodes.none),
    2,
  );
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, query.subarray(headerBytes, end), ...records]);
}

/** Where the question ends, too. */
function question(query: Buffer): { readonly name: string; readonly type: number; readonly end: number } {
  const labels: string[] = [];
  let at = headerBytes;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** Undefined where there is no such Service. */
async function addressesOf(api: ClusterApi, name: string): Promise<readonly string[] | undefined> {
  const [, service, namespace] = /^([a-z0-9-]+)\.([a-z0-9-]+)\.svc\.cluster\.local$/.exec(name) ?? [];
  if (service === undefined || namespace === undefined) return undefined;
  const those = `labelSelector=${encodeURIComponent(`kubernetes.io/service-name=${service}`)}`;
  const place = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices?${those}`;
  const { items } = slices.parse(await api.read(place, AbortSignal.timeout(answerMs)));
  if (items.length === 0) return undefined;
  return items
    .flatMap(({ endpoints }) => endpoints ?? [])
    .flatMap(({ addresses, conditions }) => (conditions.ready === false ? [] : addresses));
}

/** It names the question's name, and is good for a second. */
function addressRecord(address: string): Buffer {
  const record = Buffer.alloc(16);
  record.writeUInt16BE(0xc000 | headerBytes, 0);
  record.writeUInt16BE(types.address, 2);
  record.writeUInt16BE(types.internet, 4);
  record.writeUInt32BE(1, 6);
  record.writeUInt16BE(4, 10);
  record.set(address.split(".").map(Number), 12);
  return record;
}
