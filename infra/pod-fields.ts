import { z } from "zod";

/** https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ */
const labelKey = z
  .string()
  .regex(
    /^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/,
    "it is no label's name, as in example.org/ci",
  );
const labelValue = z
  .string()
  .regex(/^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/, "it is no label's value");

export const labels = z.record(labelKey, labelValue).default({});

const toleration = z
  .strictObject({
    key: labelKey.exactOptional(),
    operator: z.enum(["Exists", "Equal"], "it is neither Exists nor Equal").exactOptional(),
    value: labelValue.exactOptional(),
    effect: z
      .enum(
        ["NoSchedule", "PreferNoSchedule", "NoExecute"],
        "it is neither NoSchedule, PreferNoSchedule nor NoExecute",
      )
      .exactOptional(),
    tolerationSeconds: z.int().exactOptional(),
  })
  .refine(({ key, operator }) => key !== undefined || operator === "Exists", "it needs a key, or Exists")
  .refine(({ operator, value }) => operator !== "Exists" || value === undefined, "Exists has no value")
  .refine(
    ({ effect, tolerationSeconds }) => tolerationSeconds === undefined || effect === "NoExecute",
    "tolerationSeconds is for NoExecute",
  );

/** As Kubernetes has them. */
export const tolerations = z.array(toleration).default([]);

/** https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ */
const quantity = z
  .string()
  .regex(/^[0-9]+(\.[0-9]+)?([mkMGTPE]|[KMGTPE]i|e[0-9]+)?$/, "it is no quantity, as in 500m or 8Gi");

export const quantities = z.record(labelKey, quantity);

/** Of a namespace: the name of what is limited may stand behind `requests.` and the like. */
export const quota = z.record(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*$/, "it is no name"), quantity);

export const resources = z
  .strictObject({ requests: quantities.optional(), limits: quantities.optional() })
  .default({})
  .transform(({ requests, limits }) => ({
    ...(requests === undefined ? {} : { requests }),
    ...(limits === undefined ? {} : { limits }),
  }));
