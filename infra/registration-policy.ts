/** What the controller registers its executors with, as it is configured; the policy allows nothing else. */
export type RegistrationPolicyArgs = {
  /** Of both objects. */
  readonly name: string;
  readonly controller: { readonly namespace: string; readonly serviceAccount: string };
  /** `GITEA_RUNNER_UUID`: its label stands on everything that is the controller's. */
  readonly owner: string;
  readonly trustDomain: string;
  /** `SPIRE_CLASS`. */
  readonly className: string;
  /** Entries of Pods; absent where none are made. */
  readonly pods?: PodRegistration;
  /** With `VM_IDENTITY=guest-agent`: entries of VMs' own agents. */
  readonly guestAgents?: GuestAgents;
};

export type GuestAgents = {
  /** `VM_EXECUTOR_UID`. */
  readonly executorUid: number;
};

export type PodRegistration = {
  /** `SPIRE_AGENT_ID`, a SPIFFE ID that may hold `{cluster}` and `{nodeUid}`, and `SPIRE_CLUSTER`. */
  readonly agentId: string;
  readonly cluster: string;
  /** `POD_EXECUTOR_UID`. */
  readonly executorUid: number;
};

type Validation = { readonly expression: string; readonly message: string };

/** https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ */
export type RegistrationPolicy = {
  readonly policy: {
    readonly apiVersion: "admissionregistration.k8s.io/v1";
    readonly kind: "ValidatingAdmissionPolicy";
    readonly metadata: { readonly name: string };
    // Lists are not readonly, because the engine's types are not.
    readonly spec: {
      readonly failurePolicy: "Fail";
      readonly matchConstraints: {
        readonly resourceRules: {
          readonly apiGroups: string[];
          readonly apiVersions: string[];
          readonly operations: string[];
          readonly resources: string[];
        }[];
      };
      readonly matchConditions: { readonly name: string; readonly expression: string }[];
      readonly validations: Validation[];
    };
  };
  readonly binding: {
    readonly apiVersion: "admissionregistration.k8s.io/v1";
    readonly kind: "ValidatingAdmissionPolicyBinding";
    readonly metadata: { readonly name: string };
    readonly spec: { readonly policyName: string; readonly validationActions: string[] };
  };
};

/**
 * Whoever may create a ClusterStaticEntry may mint any identity of the trust domain. This narrows that right of the
 * controller's service account to identities of jobs, for the executor's user in the executor's container of one Pod or
 * in the VM whose own agent bears the entry's name, and to entries with its owner's label. Nobody else is concerned.
 */
export function registrationPolicy(args: RegistrationPolicyArgs): RegistrationPolicy {
  const { name, controller } = args;
  const user = `system:serviceaccount:${controller.namespace}:${controller.serviceAccount}`;
  return {
    policy: {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "ValidatingAdmissionPolicy",
      metadata: { name },
      spec: {
        failurePolicy: "Fail",
        matchConstraints: {
          resourceRules: [
            {
              apiGroups: ["spire.spiffe.io"],
              apiVersions: ["*"],
              operations: ["CREATE", "UPDATE", "DELETE"],
              // The other two give identities as well, and are never the controller's business.
              resources: ["clusterstaticentries", "clusterspiffeids", "clusterfederatedtrustdomains"],
            },
          ],
        },
        matchConditions: [{ name: "controller", expression: `request.userInfo.username == ${quoted(user)}` }],
        validations: validations(args),
      },
    },
    binding: {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "ValidatingAdmissionPolicyBinding",
      metadata: { name },
      spec: { policyName: name, validationActions: ["Deny"] },
    },
  };
}

function validations(args: RegistrationPolicyArgs): Validation[] {
  const { owner, trustDomain, className } = args;
  const job = `^spiffe://${escaped(trustDomain)}/(ci|ci-fork)(/[A-Za-z0-9._-]+){2}/[A-Za-z_][A-Za-z0-9_-]*$`;
  return [
    {
      expression: "request.resource.resource == 'clusterstaticentries'",
      message: "the runner registers its executors by ClusterStaticEntries only",
    },
    {
      expression: `[object, oldObject].all(one, one == null || ${ownedBy("one", owner)})`,
      message: "the entry is not of this runner: label ci.ddupan.top/owner is another's, or missing",
    },
    {
      expression: after(`object.spec.spiffeID.matches(${quoted(job)})`),
      message: `the SPIFFE ID is not that of a job below spiffe://${trustDomain}/ci/ or /ci-fork/`,
    },
    {
      expression: after(byKind(args, nodesAgent, () => guestsAgent(args))),
      message: "the parent is not the agent of a node, nor of the VM of the entry's name",
    },
    {
      expression: after(`has(object.spec.className) && object.spec.className == ${quoted(className)}`),
      message: `the class is not ${className}`,
    },
    {
      expression: after(byKind(args, podSelectors, guestSelectors)),
      message:
        "the selectors are not one Pod's UID, the executor's container and the executor's user, nor in a VM that user alone",
    },
    {
      expression: after(
        [
          ...["admin", "downstream", "storeSVID"].map(
            (power) => `(!has(object.spec.${power}) || !object.spec.${power})`,
          ),
          ...["federatesWith", "dnsNames"].map(
            (list) => `(!has(object.spec.${list}) || size(object.spec.${list}) == 0)`,
          ),
        ].join(" && "),
      ),
      message:
        "an executor is no administrator, signs and stores nothing, and has neither DNS names nor friends",
    },
  ];
}

/** What an entry is for stands in its label; of a kind that is not made none is allowed. */
function byKind(
  { pods, guestAgents }: RegistrationPolicyArgs,
  ofPod: (pods: PodRegistration) => string,
  ofVm: (guestAgents: GuestAgents) => string,
): string {
  const labels = "object.metadata.labels";
  const key = "'ci.ddupan.top/backend'";
  const [forVm, forPod] = [guestAgents && ofVm(guestAgents), pods && ofPod(pods)];
  return `has(${labels}) && ${key} in ${labels} && ${labels}[${key}] == 'vm' ? (${forVm ?? "false"}) : (${forPod ?? "false"})`;
}

function nodesAgent(pods: PodRegistration): string {
  return `object.spec.parentID.matches(${quoted(parentPattern(pods))})`;
}

/** It has joined by a token that names owner and executor, and an entry is named as its executor is. */
function guestsAgent({ trustDomain, owner }: RegistrationPolicyArgs): string {
  const ours = `spiffe://${trustDomain}/spire/agent/join_token/ci.${owner}.`;
  return [
    `object.spec.parentID.startsWith(${quoted(ours)} + object.metadata.name + '.')`,
    `object.spec.parentID.matches(${quoted(String.raw`\.gitea-task-[0-9]+-[0-9]+-[0-9a-f]{8}\.[0-9a-f]{32}$`)})`,
  ].join(" && ");
}

function podSelectors({ executorUid }: PodRegistration): string {
  return [
    "size(object.spec.selectors) == 3",
    "object.spec.selectors.exists(one, one.matches('^k8s:pod-uid:[A-Za-z0-9-]+$'))",
    "object.spec.selectors.exists(one, one == 'k8s:container-name:executor')",
    `object.spec.selectors.exists(one, one == 'unix:uid:${executorUid}')`,
  ].join(" && ");
}

function guestSelectors({ executorUid }: GuestAgents): string {
  return `size(object.spec.selectors) == 1 && object.spec.selectors[0] == 'unix:uid:${executorUid}'`;
}

/** A deletion has no new object, and a creation no old one. */
function after(expression: string): string {
  return `object == null || (${expression})`;
}

function ownedBy(object: string, owner: string): string {
  const labels = `${object}.metadata.labels`;
  const key = "'ci.ddupan.top/owner'";
  return `(has(${labels}) && ${key} in ${labels} && ${labels}[${key}] == ${quoted(owner)})`;
}

function parentPattern({ agentId, cluster }: PodRegistration): string {
  const nodeUid = "{nodeUid}";
  const parts = agentId.replaceAll("{cluster}", () => cluster).split(nodeUid);
  return `^${parts.map(escaped).join("[A-Za-z0-9-]+")}$`;
}

/** For a regular expression of RE2. */
function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

/** A string of CEL. */
function quoted(text: string): string {
  return `'${text.replaceAll("\\", String.raw`\\`).replaceAll("'", String.raw`\'`)}'`;
}
