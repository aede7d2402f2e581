/**
 * @file Properties draw the same cases in every run, so that a run that passed passes again; `ORBWEAVER_SEED` draws others.
 */

import fc from "fast-check";

fc.configureGlobal({ seed: Number(process.env["ORBWEAVER_SEED"] ?? 1) });
