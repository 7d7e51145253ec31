import { connect, type JetStreamManager, type NatsConnection } from "nats";
import { z } from "zod";
import { plainProperties, type Properties } from "./property-values.ts";

const text = z.string().min(1);

/** The properties of the provider resource: where the server is, and as whom. */
export const connectionInputs = z.strictObject({
  servers: text,
  user: text.optional(),
  password: text.optional(),
  /** In PEM: trust this authority only, and insist on TLS. */
  ca: text.optional(),
  /** The engine's own, which it gives to every provider. */
  version: z.string().optional(),
});

export type ConnectionInputs = z.infer<typeof connectionInputs>;

export type Connection = {
  /** Connects at the first call. Rejects with what is wrong with the server, or with the provider's properties. */
  manager(): Promise<JetStreamManager>;
  close(): Promise<void>;
};

const timeoutMs = 5_000;

/** A connection to the server that the properties name; nothing is dialled before somebody needs it. */
export function createConnection(properties: Properties): Connection {
  let opened: Promise<NatsConnection> | undefined;
  const open = async () => {
    const given = connectionInputs.safeParse(plainProperties(properties));
    if (!given.success)
      throw new Error("jetstream: the provider is not told where the server is: set servers");
    const { servers, user, password, ca } = given.data;
    try {
      return await connect({
        servers: servers.split(","),
        ...(user === undefined ? {} : { user }),
        ...(password === undefined ? {} : { pass: password }),
        ...(ca === undefined ? {} : { tls: { ca } }),
        timeout: timeoutMs,
        name: "pulumi",
        // A command that a person waits for: better an error than another try.
        reconnect: false,
      });
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      throw new Error(`jetstream: no connection to ${servers}: ${words}`, { cause: error });
    }
  };
  return {
    manager: async () => {
      opened ??= open();
      return (await opened).jetstreamManager({ timeout: timeoutMs });
    },
    close: async () => {
      await (await opened?.catch(() => undefined))?.close();
    },
  };
}
