import type { Workload } from "../../support/workload.ts";
import { artifacts } from "./artifacts/workload.ts";
import { background } from "./background/workload.ts";
import { cancel } from "./cancel/workload.ts";
import { composite } from "./composite/workload.ts";
import { concurrency } from "./concurrency/workload.ts";
import { conditions } from "./conditions/workload.ts";
import { environment } from "./environment/workload.ts";
import { manyLines } from "./many-lines/workload.ts";
import { matrix } from "./matrix/workload.ts";
import { oddOutput } from "./odd-output/workload.ts";
import { outputTooLarge } from "./output-too-large/workload.ts";
import { outputs } from "./outputs/workload.ts";
import { quick } from "./quick/workload.ts";
import { cloneAndPush } from "./repository/workload.ts";
import { rerun } from "./rerun/workload.ts";
import { reusable } from "./reusable/workload.ts";
import { secrets } from "./secrets/workload.ts";
import { shells } from "./shells/workload.ts";
import { summary } from "./summary/workload.ts";
import { timeout } from "./timeout/workload.ts";

/** In the order in which they are pushed: those that wait long for something first. */
export const workloads: readonly Workload[] = [
  timeout,
  outputTooLarge,
  manyLines,
  cancel,
  concurrency,
  rerun,
  outputs,
  artifacts,
  cloneAndPush,
  composite,
  conditions,
  matrix,
  secrets,
  reusable,
  background,
  shells,
  environment,
  oddOutput,
  summary,
  quick,
];
