import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { assignmentMachine } from "../controller/assignment/next.ts";
import { defaultTimes } from "../controller/assignment/times.ts";
import { exitsTable } from "./machine-table/exits.ts";
import { placed } from "./machine-table/place.ts";
import { machineTable } from "./machine-table/table.ts";

// Usage: npm run gen:machine. Writes the tables of the state machine into the README of controller/assignment.
const page = path.join(import.meta.dirname, "../controller/assignment/README.md");
const made = [machineTable(assignmentMachine), exitsTable(defaultTimes)].join("\n\n");
await writeFile(page, placed(await readFile(page, "utf8"), made));
