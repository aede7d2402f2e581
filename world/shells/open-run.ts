/** @file The question to a job what it holds and waits for, as `activities/open-run.ts` asks it: under the name of the run that is open. */

import type { JobId, LeaseId } from "../../domain/values/ids.ts";
import type { Process, Task } from "../kernel/process.ts";
import type { Server } from "../temporal/server.ts";
import type { Site } from "./site.ts";

/** False where nobody answered. */
export function* askRun(
  { network, server }: Site,
  process: Process,
  {
    jobId: to,
    runId,
    leases = [],
  }: { readonly jobId: JobId; readonly runId: string; readonly leases?: readonly LeaseId[] },
): Task<boolean> {
  let asked: string | undefined = runId;
  while (asked !== undefined) {
    const named: string = asked;
    const payload = { leases, runId: named };
    const reply = yield* network.call(process, () => ({
      isTold: server.signal(to, { name: "assert", payload, runId: named }),
      open: server.openRun(to)?.runId,
    }));
    if (!reply.isHeard) return false;
    asked = reply.value.isTold ? undefined : reply.value.open;
  }
  return true;
}

/** The run of a job that goes on for one that is gone; true as well where there is none. */
export function* askOpenRun(site: Site, process: Process, jobId: JobId): Task<boolean> {
  const open = yield* site.network.call(process, () => site.server.openRun(jobId)?.runId);
  if (!open.isHeard) return false;
  return open.value === undefined || (yield* askRun(site, process, { jobId, runId: open.value }));
}

/** Within one call to the server. */
export function askAll(server: Server): void {
  for (const job of server.openIds("job")) {
    const runId = server.openRun(job)?.runId;
    server.signal(job, { name: "assert", payload: { leases: [], runId } });
  }
}
