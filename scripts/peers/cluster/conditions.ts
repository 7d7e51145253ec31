import { z } from "zod";
import type { KubernetesObject } from "./api.ts";

const conditions = z.object({
  conditions: z.array(z.object({ type: z.string(), status: z.string() })).default([]),
});

/** Whether the object's status has the condition, and it is true. */
export function hasCondition({ status }: KubernetesObject, type: string): boolean {
  const parsed = conditions.safeParse(status);
  return parsed.success && parsed.data.conditions.some((one) => one.type === type && one.status === "True");
}
