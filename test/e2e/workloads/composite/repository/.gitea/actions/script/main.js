const { appendFileSync } = require("node:fs");

const doubled = 2 * Number(process.env.INPUT_NUMBER);
console.log(`doubling ${process.env.INPUT_NUMBER}`);
appendFileSync(process.env.GITHUB_OUTPUT, `doubled=${doubled}\n`);
appendFileSync(process.env.GITHUB_ENV, `DOUBLED=${doubled}\n`);
appendFileSync(process.env.GITHUB_STATE, `seen=${doubled}\n`);
