import assert from "node:assert/strict";
import { after, before, describe, it } from "mocha";
import { cancelRun } from "../../scripts/peers/gitea-api/runs.ts";
