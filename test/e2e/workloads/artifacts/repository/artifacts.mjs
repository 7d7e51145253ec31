// What actions/upload-artifact@v4 and actions/download-artifact@v4 say on the wire, without their packing.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";

const { ACTIONS_RESULTS_URL: results, ACTIONS_RUNTIME_TOKEN: token } = process.env;
const claims = JSON.parse(Buffer.from(token.split(".")[1], "base64url").toString());
const [, run, job] = claims.scp.split(":");
const own = { workflow_run_backend_id: run, workflow_job_run_backend_id: job };
const blockBytes = 1_000_000;

async function call(method, request) {
  const url = `${new URL(results).origin}/twirp/github.actions.results.api.v1.ArtifactService/${method}`;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(request) });
  if (!answer.ok) throw new Error(`${method}: ${answer.status} ${await answer.text()}`);
  console.log(`${method}: ${answer.status}`);
  return await answer.json();
}

async function send(url, body) {
  const answer = await fetch(url, { method: "PUT", body });
  if (!answer.ok) throw new Error(`PUT: ${answer.status} ${await answer.text()}`);
}

async function put(name) {
  const content = await readFile(name);
  const { signedUploadUrl } = await call("CreateArtifact", { ...own, name, version: 4 });
  const ids = [];
  for (let at = 0; at < content.length; at += blockBytes) {
    const id = Buffer.from(`block-${ids.length}`.padEnd(24, "-")).toString("base64");
    await send(
      `${signedUploadUrl}&comp=block&blockid=${encodeURIComponent(id)}`,
      content.subarray(at, at + blockBytes),
    );
    ids.push(id);
  }
  const list = ids.map((id) => `<Latest>${id}</Latest>`).join("");
  await send(
    `${signedUploadUrl}&comp=blocklist`,
    `<?xml version="1.0" encoding="utf-8"?><BlockList>${list}</BlockList>`,
  );
  const hash = `sha256:${createHash("sha256").update(content).digest("hex")}`;
  await call("FinalizeArtifact", { ...own, name, size: String(content.length), hash });
  console.log(`put ${content.length} bytes in ${ids.length} blocks`);
}

async function get(name) {
  const { artifacts } = await call("ListArtifacts", { ...own, name_filter: name });
  console.log(
    `listed: ${artifacts.map((artifact) => `${artifact.name}, ${artifact.size} bytes`).join("; ")}`,
  );
  const { signedUrl } = await call("GetSignedArtifactURL", { ...own, name });
  const answer = await fetch(signedUrl);
  if (!answer.ok) throw new Error(`GET: ${answer.status}`);
  await writeFile(name, Buffer.from(await answer.arrayBuffer()));
}

const [, , what, name] = process.argv;
await (what === "put" ? put(name) : get(name));
