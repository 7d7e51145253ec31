import type { JetStreamManager } from "nats";
import { z } from "zod";
import { consumerKind } from "./consumer-kind.ts";
import type { Difficulty } from "./difficulty.ts";
import { keyValueKind } from "./key-value-kind.ts";
import {
  given,
  isUnknown,
  plainProperties,
  type Properties,
  secretNames,
  withSecrets,
} from "./property-values.ts";
import type { Permissions, ResourceKind, There } from "./resource-kind.ts";
import { streamKind } from "./stream-kind.ts";

export type CheckFailure = { readonly property: string; readonly reason: string };

export type PropertyChange = {
  readonly property: string;
  readonly kind: "add" | "delete" | "update";
  readonly replaces: boolean;
};

/** A resource as it is in the state. Inputs and outputs are the same: what the server adds nobody uses. */
export type Found = { readonly id: string; readonly properties: Properties };

/**
 * What the engine asks of a provider, https://www.pulumi.com/docs/iac/extending-pulumi/: check and diff decide and
 * call nobody, look only looks; the others call the server once and reject with an Error whose message is for the operator. Secrets
 * come and go marked.
 */
export type Provider = {
  check(
    type: string,
    before: Properties | undefined,
    wanted: Properties,
  ): { readonly inputs: Properties; readonly failures: readonly CheckFailure[] };
  /**
   * What on the server keeps a new resource with these checked inputs from being made: told before anything is changed.
   * A server that cannot be asked is no obstacle, since it may be made by the same program; `unasked` tells why it was not.
   */
  look(
    type: string,
    inputs: Properties,
  ): Promise<{ readonly obstacles: readonly CheckFailure[]; readonly unasked?: string }>;
  diff(type: string, before: Properties, wanted: Properties): readonly PropertyChange[];
  create(type: string, wanted: Properties): Promise<Found>;
  /** `known`: what the state has of it, nothing in an import. Undefined if it is gone. */
  read(type: string, id: string, known: Properties): Promise<Found | undefined>;
  update(type: string, id: string, wanted: Properties): Promise<Properties>;
  delete(type: string, id: string, known: Properties): Promise<void>;
};

const kinds: readonly ResourceKind<Properties & Permissions>[] = [streamKind, consumerKind, keyValueKind];

/** Inputs that the server knows nothing of: they are what the state says. */
const ours = ["adopt", "allowDataLoss", "worthless", "worthlessHistory"];

/**
 * Not an input: what a refresh has found that no input stands for, see `There`. No program has it, so it is a difference
 * that an update takes away.
 */
const astray = "astray";

/** The provider over a server; `manager` connects when it is first asked for. */
export function createProvider(manager: () => Promise<JetStreamManager>): Provider {
  return {
    check: (type, before, wanted) => {
      const kind = kindOf(type);
      const inputs = { ...kind.defaults, ...given(wanted) };
      const parsed = kind.inputs.safeParse(plainProperties(inputs));
      if (!parsed.success) return { inputs, failures: failuresOf(parsed.error, plainProperties(inputs)) };
      const refused = before === undefined ? [] : losses(kind, before, parsed.data);
      return { inputs, failures: refused };
    },
    look: async (type, wanted) => {
      const kind = kindOf(type);
      const inputs = kind.inputs.safeParse(plainProperties(wanted)).data;
      if (inputs === undefined) return { obstacles: [] };
      const id = kind.id(inputs);
      let server: JetStreamManager;
      try {
        server = await manager();
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        return {
          obstacles: [],
          unasked: `nobody could look whether ${kind.noun} ${id} is there already: ${why}`,
        };
      }
      const there = await readAs(kind, server, id);
      const taken = there === undefined ? undefined : whyNotAdopted(kind, id, there.inputs, inputs);
      const reasons = [...(taken === undefined ? [] : [taken]), ...(await kind.obstacles(server, inputs))];
      return { obstacles: reasons.map((reason) => ({ property: "", reason })) };
    },
    diff: (type, before, wanted) => {
      const [from, to] = [plainProperties(before), plainProperties(wanted)];
      const names = new Set([...Object.keys(from), ...Object.keys(to)]);
      const changed = [...names].filter((name) => JSON.stringify(from[name]) !== JSON.stringify(to[name]));
      const kind = kindOf(type);
      // What becomes of an id that is not known yet, since what it hangs on is replaced, is another object.
      const replaced = new Set<string>(kind.idInputs.filter((name) => isUnknown(to[name])));
      for (const { property, by } of difficulties(kind, from, to))
        if (by === "replacement") replaced.add(property);
      return changed.toSorted().map((property) => ({
        property,
        kind: from[property] === undefined ? "add" : to[property] === undefined ? "delete" : "update",
        replaces: replaced.has(property),
      }));
    },
    create: async (type, wanted) => {
      const kind = kindOf(type);
      const inputs = kind.inputs.parse(plainProperties(wanted));
      const server = await manager();
      const id = kind.id(inputs);
      const there = await readAs(kind, server, id);
      const reason = there === undefined ? undefined : whyNotAdopted(kind, id, there.inputs, inputs);
      if (reason !== undefined) throw new Error(reason);
      await (there === undefined ? kind.create(server, inputs) : kind.update(server, id, inputs));
      return { id, properties: withSecrets(inputs, secretNames(wanted)) };
    },
    read: async (type, id, known) => {
      const kind = kindOf(type);
      const there = await readAs(kind, await manager(), id);
      if (there === undefined) return undefined;
      const plain = plainProperties(known);
      const properties = {
        ...there.inputs,
        ...Object.fromEntries(ours.flatMap((name) => (name in plain ? [[name, plain[name]]] : []))),
        // An import makes a program's text of it, where it could not stand.
        ...(there.astray.length === 0 || Object.keys(plain).length === 0 ? {} : { [astray]: there.astray }),
      };
      return { id, properties: withSecrets(properties, secretNames(known)) };
    },
    update: async (type, id, wanted) => {
      const kind = kindOf(type);
      const inputs = kind.inputs.parse(plainProperties(wanted));
      await kind.update(await manager(), id, inputs);
      return withSecrets(inputs, secretNames(wanted));
    },
    delete: async (type, id, known) => {
      const kind = kindOf(type);
      const server = await manager();
      const plain = plainProperties(known);
      const stored = plain["allowDataLoss"] === true ? 0 : await kind.stored(server, id, plain);
      if (stored > 0)
        throw new Error(
          `${kind.noun} ${id} has ${stored} messages, which would be lost: ` +
            "set allowDataLoss on it and run pulumi up first, or keep it with retainOnDelete",
        );
      await kind.remove(server, id);
    },
  };
}

function kindOf(type: string): (typeof kinds)[number] {
  const kind = kinds.find((one) => one.type === type);
  if (kind === undefined) throw new Error(`this provider knows no ${type}`);
  return kind;
}

/** Rejects where the object is one that these inputs cannot describe, as a mirror of another stream. */
async function readAs<Inputs extends Properties>(
  kind: ResourceKind<Inputs>,
  server: JetStreamManager,
  id: string,
): Promise<There<Inputs> | undefined> {
  try {
    return await kind.read(server, id);
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error;
    const reasons = error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
    throw new Error(`${kind.noun} ${id} is none that this provider can manage: ${reasons.join("; ")}`, {
      cause: error,
    });
  }
}

/** What is not known yet is nobody's mistake. */
function failuresOf(error: z.ZodError, inputs: Properties): CheckFailure[] {
  return error.issues
    .flatMap(({ path, message, ...issue }) =>
      issue.code === "unrecognized_keys"
        ? issue.keys.map((property) => ({ property, reason: "there is no such property" }))
        : [{ property: String(path[0] ?? ""), reason: message }],
    )
    .filter(({ property }) => !isUnknown(inputs[property]))
    .map(({ property, reason }) =>
      inputs[property] === undefined ? { property, reason: "it is required" } : { property, reason },
    );
}

/** Why what is there already is not taken over; undefined if it is. */
function whyNotAdopted<Inputs extends Properties & Permissions>(
  kind: ResourceKind<Inputs>,
  id: string,
  there: Inputs,
  wanted: Inputs,
): string | undefined {
  const what = `${kind.noun} ${id}`;
  if (!wanted.adopt)
    return `${what} exists already: import it, or set adopt to take it over and make it as it is wanted`;
  const obstacle = kind
    .difficulties(there, wanted)
    .find(({ by, losesData }) => by === "replacement" || (losesData && !wanted.allowDataLoss));
  return obstacle && `${what} cannot be adopted as it is: ${obstacle.property}: ${obstacle.reason}`;
}

function difficulties(kind: ResourceKind, from: Properties, to: Properties): readonly Difficulty[] {
  const known = (properties: Properties) =>
    kind.inputs.safeParse(
      Object.fromEntries(
        Object.entries(properties).filter(([name, value]) => name !== astray && !isUnknown(value)),
      ),
    ).data;
  const [before, after] = [known(from), known(to)];
  return before === undefined || after === undefined ? [] : kind.difficulties(before, after);
}

/** A change that would cost stored messages is refused before anything is changed. */
function losses(
  kind: ResourceKind<Properties & Permissions>,
  before: Properties,
  wanted: Properties & Permissions,
): CheckFailure[] {
  if (wanted.allowDataLoss) return [];
  return difficulties(kind, plainProperties(before), wanted)
    .filter(({ losesData }) => losesData)
    .map(({ property, reason }) => ({
      property,
      reason: `${reason}: stored messages would be lost. Set allowDataLoss if that is wanted`,
    }));
}
