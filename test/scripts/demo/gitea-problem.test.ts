import assert from "node:assert/strict";
import { describe, it } from "mocha";
import * as z from "zod";
import { giteaProblem, versionProblem } from "../../../scripts/demo/gitea-problem.ts";
import { GiteaRefusal } from "../../../scripts/peers/gitea-api/client.ts";

const url = "https://git.example";
const refusal = (status: number, answer: string) =>
  new GiteaRefusal({ method: "POST", path: "/user/repos" }, status, answer);

describe("what is wrong with a Gitea", () => {
  const cases: readonly (readonly [string, unknown, string])[] = [
    [
      "a token that is not accepted",
      refusal(401, '{"message":"invalid username, password or token"}'),
      `${url} does not accept the token (401: invalid username, password or token)`,
    ],
    [
      "a token that may too little",
      refusal(403, '{"message":"required=[write:user]"}'),
      `${url} refused the work (403: required=[write:user]); the token needs the scopes write:user and write:repository`,
    ],
    ["a proxy", refusal(502, "<html>\n  Bad   Gateway"), `${url} refused the work (502: <html> Bad Gateway)`],
    [
      "nobody who listens",
      new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED 127.0.0.1:1") }),
      `${url} cannot be reached: connect ECONNREFUSED 127.0.0.1:1`,
    ],
    [
      "nobody on either address",
      new TypeError("fetch failed", { cause: Object.assign(new Error(""), { code: "ECONNREFUSED" }) }),
      `${url} cannot be reached: ECONNREFUSED`,
    ],
    [
      "something else than JSON",
      new SyntaxError("Unexpected token <"),
      `${url} answered the work with something unknown: is it a Gitea?`,
    ],
    [
      "other JSON",
      z.object({ version: z.string() }).safeParse({}).error,
      `${url} answered the work with something unknown: is it a Gitea?`,
    ],
  ];
  for (const [what, error, text] of cases)
    it(`is said for ${what}`, () => assert.equal(giteaProblem(url, "the work", error), text));

  for (const [version, problem] of [
    ["1.27.0", undefined],
    ["1.27.3+12-gabcdef", undefined],
    ["1.28.0+dev-5-g123", undefined],
    ["2.0.0", undefined],
    ["1.26.9", /1\.26\.9 is too old: 1\.27 or newer/],
    ["1.9.0", /too old/],
    ["0.99.1", /too old/],
    ["12.0.1+gitea-1.22.0", /Forgejo/],
    ["development", /no version that is known/],
  ] as const)
    it(`is ${problem === undefined ? "nothing" : "said"} for version ${version}`, () => {
      if (problem === undefined) assert.equal(versionProblem(version), undefined);
      else assert.match(versionProblem(version) ?? "", problem);
    });
});
