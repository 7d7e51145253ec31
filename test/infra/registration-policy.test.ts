import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { registrationPolicy, type RegistrationPolicyArgs } from "../../infra/registration-policy.ts";

const base = {
  name: "gitea-dynamic-runner",
  controller: { namespace: "gitea-runner", serviceAccount: "controller" },
  owner: "8f14e45f-ceea-467f-a0e6-c4e8e1c8a1b2",
  trustDomain: "example.org",
  className: "spire-mgmt-spire",
};

function policyFor(overrides: Partial<RegistrationPolicyArgs> = {}) {
  return registrationPolicy({ ...base, pods, ...overrides });
}

const pods = {
  agentId: "spiffe://example.org/spire/agent/k8s_psat/{cluster}/{nodeUid}",
  cluster: "homelab",
  executorUid: 2000,
};

/** The regular expression that an expression of the policy matches a field with. */
function patternFor(field: string, overrides: Partial<RegistrationPolicyArgs> = {}): RegExp {
  const { validations } = policyFor(overrides).policy.spec;
  const found = validations.find(({ expression }) => expression.includes(`${field}.matches(`));
  const text = /\.matches\('((?:[^'\\]|\\.)*)'\)/.exec(found?.expression ?? "")?.[1];
  assert.ok(text !== undefined, `${field} is not matched with anything`);
  return new RegExp(text.replaceAll(/\\(.)/g, "$1"));
}

describe("the policy for what the controller may register", () => {
  it("is enforced, for the controller's service account alone, and fails closed", () => {
    const { policy, binding } = policyFor();
    assert.equal(binding.spec.policyName, policy.metadata.name);
    assert.deepEqual(binding.spec.validationActions, ["Deny"]);
    assert.equal(policy.spec.failurePolicy, "Fail");
    assert.deepEqual(policy.spec.matchConditions, [
      {
        name: "controller",
        expression: "request.userInfo.username == 'system:serviceaccount:gitea-runner:controller'",
      },
    ]);
    assert.deepEqual(policy.spec.matchConstraints.resourceRules[0]?.operations, [
      "CREATE",
      "UPDATE",
      "DELETE",
    ]);
  });

  for (const id of [
    "spiffe://example.org/ci/acme/widgets/build",
    "spiffe://example.org/ci-fork/acme/widgets..20/_build-2",
  ])
    it(`allows ${id}`, () => {
      assert.match(id, patternFor("spiffeID"));
    });

  for (const id of [
    "spiffe://example.org/ci-controller",
    "spiffe://example.org/ci/acme/widgets",
    "spiffe://example.org/ci/acme/widgets/build/more",
    "spiffe://example.org/ns/default/sa/default",
    "spiffe://other.org/ci/acme/widgets/build",
    "spiffe://exampleXorg/ci/acme/widgets/build",
    "x spiffe://example.org/ci/acme/widgets/build",
  ])
    it(`does not allow ${id}`, () => {
      assert.doesNotMatch(id, patternFor("spiffeID"));
    });

  it("allows any node's agent of this cluster as the parent, if the agents are told apart by their nodes", () => {
    const pattern = patternFor("parentID");
    const agents = "spiffe://example.org/spire/agent/k8s_psat";
    assert.match(`${agents}/homelab/0b6c2d9e-7f7f-4c0a-9df6-0f6ad4e1a111`, pattern);
    assert.doesNotMatch(`${agents}/elsewhere/0b6c2d9e`, pattern);
    assert.doesNotMatch("spiffe://example.org/spire/server", pattern);
  });

  it("allows one agent alone as the parent, if the configuration names one", () => {
    const pattern = patternFor("parentID", { pods: { ...pods, agentId: "spiffe://example.org/agent" } });
    assert.match("spiffe://example.org/agent", pattern);
    assert.doesNotMatch("spiffe://example.org/agents", pattern);
  });

  it("is for the executor's user, and for entries of this runner", () => {
    const text = JSON.stringify(
      policyFor({ pods: { ...pods, executorUid: 1234 }, owner: "another" }).policy.spec.validations,
    );
    assert.match(text, /'unix:uid:1234'/);
    assert.match(text, /== 'another'/);
  });

  it("allows no entry of a kind that is not made", () => {
    const parents = [{ pods }, { guestAgents: { executorUid: 2000 } }].map(
      (kinds) => registrationPolicy({ ...base, ...kinds }).policy.spec.validations[3]?.expression,
    );
    const [podsOnly, vmsOnly] = parents;
    assert.match(podsOnly ?? "", /== 'vm' \? \(false\) : \(object\.spec\.parentID/);
    assert.match(vmsOnly ?? "", /== 'vm' \? \(object\.spec\.parentID.*\) : \(false\)/);
  });

  it("allows the agent of the VM of the entry's name, and its job's user alone, where they have", () => {
    const { validations } = policyFor({ guestAgents: { executorUid: 1234 } }).policy.spec;
    const [parent, selectors] = [3, 5].map((index) => validations[index]?.expression ?? "");
    const isVm = "object.metadata.labels['ci.ddupan.top/backend'] == 'vm' ? ";
    const agents =
      "'spiffe://example.org/spire/agent/join_token/ci.8f14e45f-ceea-467f-a0e6-c4e8e1c8a1b2.' + object.metadata.name + '.'";
    assert.ok(parent?.includes(`${isVm}(object.spec.parentID.startsWith(${agents})`), parent);
    assert.ok(
      selectors?.includes(
        `${isVm}(size(object.spec.selectors) == 1 && object.spec.selectors[0] == 'unix:uid:1234') : (size(`,
      ),
      selectors,
    );
    const form =
      /matches\('((?:[^'\\]|\\.)*\$)'\)/.exec(parent ?? "")?.[1]?.replaceAll(/\\(.)/g, "$1") ?? assert.fail();
    const name = "gitea-task-42-1-00000000";
    assert.match(`ci.x.${name}.${"0".repeat(32)}`, new RegExp(form));
    for (const other of [`ci.x.${name}`, `ci.x.${name}.more.${"0".repeat(32)}`, `x${"0".repeat(32)}`])
      assert.doesNotMatch(other, new RegExp(form));
    // What Pods' entries have to be does not change.
    for (const [index, { expression }] of policyFor().policy.spec.validations.entries()) {
      const ofPod = expression.replaceAll("? (false) : ", "");
      const [kept = ""] = ofPod.split("== 'vm'").slice(-1);
      assert.ok(validations[index]?.expression.includes(kept.trim()), expression);
    }
  });

  it("holds quotes together, whatever a name holds", () => {
    const { expression } = policyFor({ className: String.raw`it's \ odd` }).policy.spec.validations[4] ?? {};
    assert.ok(expression?.endsWith(String.raw`== 'it\'s \\ odd')`), expression);
  });
});
