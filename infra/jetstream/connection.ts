import { connect, type JetStreamManager, type NatsConnection } from "nats";
import { z } from "zod";
import { isUnknown, plainProperties, type Properties } from "./property-values.ts";

const text = z.string().min(1);

/** The properties of the provider resource: where the server is, and as whom. */
export const connectionInputs = z.strictObject({
  /** Of one server, or of several divided by commas. An address is shown, so it may not hold what is secret. */
  servers: text.refine((addresses) => !addresses.includes("@"), "user and password do not belong into it"),
  user: text.optional(),
  password: text.optional(),
  /** In PEM: trust this authority only, and insist on TLS. */
  ca: text.optional(),
  /** The engine's own, which it gives to every provider. */
  version: z.string().optional(),
});

export type ConnectionInputs = z.infer<typeof connectionInputs>;

export type Connection = {
  /**
   * Connects at the first call, and anew where there was no server before, or the connection has been lost since. Rejects with
   * what is wrong with the server, or with the provider's properties.
   */
  manager(): Promise<JetStreamManager>;
  close(): Promise<void>;
};

const timeoutMs = 5_000;

/** A connection to the server that the properties name; nothing is dialled before somebody needs it. */
export function createConnection(properties: Properties): Connection {
  let opened: Promise<NatsConnection> | undefined;
  const open = async () => {
    const plain = plainProperties(properties);
    if (isUnknown(plain))
      throw new Error("jetstream: where the server is, or as whom to come, is not known yet");
    const given = connectionInputs.safeParse(plain);
    if (!given.success) throw new Error(`jetstream: ${whatIsWrong(plain, given.error)}`);
    const { servers, user, password, ca } = given.data;
    try {
      return await connect({
        servers: servers.split(",").map((one) => one.trim()),
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
  /** Of several callers at once all wait for the same one. */
  const opening = async () => {
    const mine = (opened ??= open());
    try {
      return await mine;
    } catch (error) {
      if (opened === mine) opened = undefined;
      throw error;
    }
  };
  return {
    manager: async () => {
      let connection = await opening();
      const before = opened;
      if (connection.isClosed()) {
        // While an image was built, or somebody thought about a plan.
        if (opened === before) opened = undefined;
        connection = await opening();
      }
      return connection.jetstreamManager({ timeout: timeoutMs });
    },
    close: async () => {
      await (await opened?.catch(() => undefined))?.close();
    },
  };
}

function whatIsWrong(given: Properties, { issues }: z.ZodError): string {
  if (given["servers"] === undefined) return "the provider is not told where the server is: set servers";
  const told = issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  return `the provider's properties are not usable: ${told.join("; ")}`;
}
