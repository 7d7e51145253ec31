import { patchSource } from "../patch-source.ts";
import { newerAnnotation } from "./newer-version.ts";
import { more } from "./with-more.ts";

/*
 * Preloaded into a controller's process (`node --import`): it says that it is another version, and writes more than we
 * know into all that it stores and that another one reads: records, sealed messages and reports, and what stands on
 * executors.
 */
patchSource({ file: "controller/version.ts", from: "${manifest.version}", to: "${manifest.version}-newer" });
patchSource({
  file: "controller/record/record-store.ts",
  from: 'from "./record-codec.ts"',
  to: `from ${JSON.stringify(import.meta.resolve("./record-codec.ts"))}`,
});
for (const file of ["controller/queue/envelope.ts", "controller/record/report-part.ts"])
  patchSource({
    file,
    from: 'from "../identity/sealed-line.ts"',
    to: `from ${JSON.stringify(import.meta.resolve("./sealed-line.ts"))}`,
  });
patchSource({
  file: "controller/assignment/executor-metadata.ts",
  from: "[`${prefix}trust`]: assignment.trust,",
  to: `[\`\${prefix}trust\`]: assignment.trust, ${JSON.stringify(newerAnnotation)}: ${JSON.stringify(more.later.by)},`,
});
patchSource({
  file: "controller/backends/local/executor-file.ts",
  from: "JSON.stringify(file, null, 2)",
  to: `JSON.stringify({ ...file, ...${JSON.stringify(more)} }, null, 2)`,
});
