import { nanos } from "nats";
import { z } from "zod";

/** The name of a stream, a consumer or a bucket: one token of a subject, and a file name on the server. */
export const name = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,128}$/, "it is no name of letters, digits, _ and -, of 128 at most");

/** https://docs.nats.io/nats-concepts/subjects */
export const subject = z
  .string()
  .regex(/^(?:[^\s.*>]+|\*)(?:\.(?:[^\s.*>]+|\*))*(?:\.>)?$|^>$/, "it is no subject, as in ci.assignment.*");

export const storage = z.enum(["file", "memory"]).default("file");
export const replicas = z.int().min(1).max(5).default(1);
export const description = z.string().max(4096).default("");

/** Seconds; 0: for ever. */
export const age = z.number().min(0).default(0);

/** A largest number or size; -1: any. */
export const limit = z
  .int()
  .refine((value) => value === -1 || value > 0, "it is neither positive nor -1, for no limit")
  .default(-1);

export const permissions = {
  adopt: z.boolean().default(false),
  allowDataLoss: z.boolean().default(false),
};

export function nanoseconds(ofSeconds: number): number {
  return nanos(ofSeconds * 1000);
}

export function seconds(ofNanoseconds: number | undefined): number {
  return (ofNanoseconds ?? 0) / 1e9;
}
