/** @file The thread of Temporal's worker that runs workflows, as one file; the bundles of the command line start it in place of the one of Temporal's package. */

import { fileURLToPath } from "node:url";
import { loadBundled } from "./bundled.ts";

loadBundled(fileURLToPath(new URL("./workflow-thread.cjs", import.meta.url)));
