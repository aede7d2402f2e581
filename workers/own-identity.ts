/** @file The identity under which this process polls; clients read in it which release it is and which rules it knows. */

import { hostname } from "node:os";
import { identityText, type WorkerIdentity } from "../protocol/worker-identity.ts";
import { NEWEST_RULES } from "../scheduling/ledger/ledger.ts";
import { ownBuildId } from "./on-demand/build-id.ts";

export const ownPollerIdentity = (
  agent: Pick<WorkerIdentity, "trust" | "containment" | "differences" | "images"> = {},
): string =>
  identityText({
    pid: process.pid,
    host: hostname(),
    release: ownBuildId(),
    rules: NEWEST_RULES,
    ...agent,
  });
