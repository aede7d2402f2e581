/** @file The repair of a ledger in a world, as `activities/repair.ts` carries it out: jobs are asked first, then the agents, by a sweep of one pass. */

import type { HostId } from "../../domain/values/ids.ts";
import { jobView } from "../../machines/job/job-view.ts";
import { doesDeny } from "../../protocol/job.ts";
import { repairSweepWorkflowId } from "../../protocol/names.ts";
import type { DoubtedLease, DoubtedRun, RepairOrder, RepairReport } from "../../protocol/repair.ts";
import { sleep, type Process, type Task } from "../kernel/process.ts";
import type { ActivityEnd } from "../temporal/activity.ts";
import { askOpenRun } from "./open-run.ts";
import type { Site } from "./site.ts";

const LOOK_MS = 1_000;
const QUERY_TIMEOUT_MS = 10_000;
const SWEEP_TIMEOUT_MS = 120_000;

export function* repair(
  site: Site,
  process: Process,
  { fleet, leases, requests }: RepairOrder,
): Task<ActivityEnd<RepairReport>> {
  const { network, server } = site;
  const denied: RepairReport["denied"][number][] = [];
  const closed: DoubtedRun[] = [];
  for (const run of requests) {
    const reply = yield* network.call(process, () => server.openRun(run.jobId)?.runId);
    if (!reply.isHeard) return { kind: "failed", code: "UNAVAILABLE" };
    if (reply.value === run.runId) continue;
    if (!(yield* askOpenRun(site, process, run.jobId)))
      return { kind: "failed", code: "UNAVAILABLE" };
    closed.push(run);
  }
  for (const doubted of leases) {
    const word = yield* wordOf(site, process, doubted);
    const isAsked = word !== "is over" || (yield* askOpenRun(site, process, doubted.jobId));
    if (word === "unheard" || !isAsked) return { kind: "failed", code: "UNAVAILABLE" };
    if (word !== "denies" && word !== "is over") continue;
    const hosts = yield* hostsThatDeny(site, process, { fleet, doubted });
    denied.push({ lease: doubted.lease, hosts });
  }
  return { kind: "done", value: { denied, closed } };
}

/** What is on its way to a job when it is asked is taken before it answers. */
function* wordOf(
  site: Site,
  process: Process,
  { jobId, runId, lease }: DoubtedLease,
): Task<"unheard" | "silent" | "holds" | "denies" | "is over"> {
  const { kernel, network, server, jobOf } = site;
  let word: "silent" | "holds" | "denies" | "is over" = "silent";
  const reply = yield* network.call(process, () => {
    if (server.openRun(jobId)?.runId !== runId) word = "is over";
    else
      jobOf(jobId)?.query(({ job, array }) => {
        word = array === undefined && doesDeny(jobView(job), lease) ? "denies" : "holds";
      });
  });
  if (!reply.isHeard) return "unheard";
  const untilMs = kernel.nowMs() + QUERY_TIMEOUT_MS;
  while (word === "silent" && kernel.nowMs() < untilMs) yield* sleep(kernel, LOOK_MS);
  return word;
}

function* hostsThatDeny(
  { network, server, kernel }: Site,
  process: Process,
  { fleet, doubted }: { readonly fleet: string; readonly doubted: DoubtedLease },
): Task<readonly HostId[]> {
  const { jobId, lease, token, hosts } = doubted;
  if (hosts.length === 0) return [];
  const id = repairSweepWorkflowId(fleet, lease);
  const started = yield* network.call(process, () =>
    server.start("sweep", id, { fleet, jobId, lease, token, hosts, passes: 1 }),
  );
  if (!started.isHeard) return [];
  const untilMs = kernel.nowMs() + SWEEP_TIMEOUT_MS;
  while (kernel.nowMs() < untilMs) {
    yield* sleep(kernel, LOOK_MS);
    const end = yield* network.call(process, () => server.lastRun(id)?.run.end());
    if (!end.isHeard || end.value === undefined) continue;
    if (end.value.kind !== "completed") return [];
    const left = end.value.result as readonly HostId[]; // of a sweep
    return hosts.filter((host) => !left.includes(host));
  }
  return [];
}
