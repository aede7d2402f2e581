/**
 * @file Properties draw the same cases in every run, so that a run that passed passes again; `ORBWEAVER_SEED` draws others.
 *
 * Jobs are signed with an identity of the tests' own, so that the user's stays untouched.
 */

import fc from "fast-check";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { caseCount } from "./case-count.ts";

const USUAL_RUNS = 100;

fc.configureGlobal({
  seed: Number(process.env["ORBWEAVER_SEED"] ?? 1),
  numRuns: caseCount(USUAL_RUNS),
});

process.env["ORBWEAVER_IDENTITY"] ??= join(
  mkdtempSync(join(tmpdir(), "orbweaver-identity-")),
  "identity.pem",
);
