import { Config } from "@pulumi/pulumi";
import { givenSettings } from "../../../infra/given-settings.ts";
import { namesOf } from "../../../infra/names.ts";
import { Queue } from "../../../infra/queue.ts";
import { readSettings } from "../../../infra/read-settings.ts";

/**
 * A program for the engine: the platform's queue and nothing else, so that it needs no cluster. It reads a stack as the platform
 * does; `test:properties` changes properties of its resources, by name, as a later version of the program might.
 */
const { plain, secrets } = givenSettings(new Config("gitea-dynamic-runner"));
const settings = readSettings(plain, new Set(Object.keys(secrets)));
const changed: Readonly<Record<string, object>> = new Config("test").getObject("properties") ?? {};
const queue = new Queue(
  "queue",
  { names: namesOf(settings), settings, password: secrets.natsPassword ?? "" },
  { transforms: [({ name, props, opts }) => ({ props: { ...props, ...changed[name] }, opts })] },
);

export const urn = queue.urn;
