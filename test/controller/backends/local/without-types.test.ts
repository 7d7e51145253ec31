import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { withoutTypes } from "../../../../controller/backends/local/without-types.ts";

describe("a module without types", () => {
  const cases: Readonly<Record<string, readonly [string, string]>> = {
    "has what it says where it was": ["const a: number = 1;", "const a         = 1;"],
    "imports our own modules by their new names": [
      `import { a } from "./a.ts";\nexport * from "../b/c.ts";\nimport "./d.ts";\nawait import("./e.ts");`,
      `import { a } from "./a.js";\nexport * from "../b/c.js";\nimport "./d.js";\nawait import("./e.js");`,
    ],
    "imports the rest as it did": [
      `import a from "a.ts";\nimport b from "./b.json" with { type: "json" };\nimport c from "./d.ts.js";`,
      `import a from "a.ts";\nimport b from "./b.json" with { type: "json" };\nimport c from "./d.ts.js";`,
    ],
    "keeps a text as it is": [`const a = "./a.ts";`, `const a = "./a.ts";`],
  };
  for (const [name, [typescript, javascript]] of Object.entries(cases))
    it(name, () => assert.equal(withoutTypes(typescript), javascript));

  it("is none where there is more than types to take away", () => {
    assert.throws(() => withoutTypes("enum A { b }"), /enum/);
  });
});
