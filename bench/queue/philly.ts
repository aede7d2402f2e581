/** @file The jobs of Philly that come with the product, of which the benches of the queue make workloads. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { readPhilly } from "../../simulator/readers/philly.ts";
import type { TraceJobs } from "../../simulator/readers/trace.ts";
import { packageRoot } from "../../workers/server/package-root.ts";

const PHILLY = "data/traces/philly-2017-rows-40000-49999.csv.gz";

/** Undefined, with the reason, where the file is not here. */
export async function phillyTrace(): Promise<
  { readonly trace: TraceJobs } | { readonly trace?: undefined; readonly why: string }
> {
  const packed = await readFile(join(packageRoot(), PHILLY)).catch(() => undefined);
  if (packed === undefined) return { why: `${PHILLY} is not here` };
  const trace = readPhilly(gunzipSync(packed).toString("utf8"), { source: PHILLY });
  return trace.kind === "jobs" ? { trace } : { why: `${PHILLY} cannot be read` };
}
