/** @file `orbweaver explain JOB --decision`: why a job got its GPUs when it did, and why others before or behind it did not. */

import { OrbweaverError } from "../../domain/values/failure.ts";
import { jobId as toJobId } from "../../domain/values/ids.ts";
import { decisionOn, type Decision, type Passed } from "../../scheduling/explain/past-decision.ts";
import { counted, durationText, timeText } from "../terminal/duration.ts";
import { gpusText } from "../text/place.ts";
import type { Session } from "./session.ts";
import { factsText } from "../terminal/table.ts";

/** Most runs of the fleet that are searched, newest first. */
const MAX_RUNS = 20;

export async function recordedDecision(
  { temporal, fleet, connection }: Pick<Session, "temporal" | "fleet" | "connection">,
  job: string,
): Promise<Decision> {
  // Only this answer needs Temporal's worker, which takes long to load.
  const { DefaultLogger, Runtime } = await import("@temporalio/worker");
  const { recordedRuns } = await import("../../workers/recorded-fleet.ts");
  // Temporal's log of the replay's start and end is not part of the answer.
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  let runs = 0;
  for await (const run of recordedRuns(temporal, fleet, connection)) {
    const decision = decisionOn(toJobId(job), run);
    if (decision !== undefined) return decision;
    runs += 1;
    if (runs >= MAX_RUNS) break;
  }
  throw new OrbweaverError(
    "NOT_FOUND",
    `no grant to ${job} is in the last ${counted(runs, "run")} of fleet ${fleet}. Either the job was never granted GPUs, or the namespace's retention has removed that run.`,
  );
}

/** `than`: compares with this job only. */
export function decisionText(decision: Decision, than?: string): string {
  const { request, item, nowMs, position, waiting, classes, others } = decision;
  const ofClass = classes.find((each) => each.class === request.class);
  const tenant = ofClass?.tenants.find((each) => each.tenant === request.tenant);
  const owed = (gpuSeconds = 0): string => `${(gpuSeconds / 3_600).toFixed(2)} GPU-hours`;
  const passed = others.filter(({ isGranted, position: at, request: { jobId } }) =>
    than === undefined ? at < position && !isGranted : jobId === than,
  );
  const lines = passed.slice(0, MAX_PASSED).map((other) => passedText(other, decision));
  const more = passed.length > MAX_PASSED ? [`and ${String(passed.length - MAX_PASSED)} more`] : [];
  return [
    `${request.jobId} was granted at ${timeText(nowMs)}: ${item.reason}`,
    factsText([
      ["on", gpusText(item.gpus)],
      [
        "place",
        `${String(position)} of ${String(waiting)} in the queue, after ${durationText(nowMs - request.requestedAtMs)}`,
      ],
      [
        "class",
        ofClass &&
          `${request.class}: had ${String(ofClass.runningGpus)} GPUs of ${String(ofClass.dueGpus)} due, deficit ${owed(ofClass.deficitGpuSeconds)}`,
      ],
      [
        "tenant",
        tenant &&
          `${request.tenant}: had ${String(tenant.runningGpus)} GPUs of ${String(tenant.dueGpus)} due, deficit ${owed(tenant.deficitGpuSeconds)}`,
      ],
      [
        than === undefined ? "passed" : "than",
        passed.length === 0
          ? "no job before it in the queue was passed over"
          : [...lines, ...more].join("\n"),
      ],
    ]).replace(/^/gm, "  "),
  ].join("\n");
}

const MAX_PASSED = 8;

function passedText(
  { request, position, isGranted, reason }: Passed,
  { position: own }: Decision,
): string {
  const name = `${request.jobId} (${request.class}, ${request.tenant}, ${counted(request.gang.gpus, "GPU")})`;
  const place = `${String(position)} in the queue`;
  if (isGranted) return `${name}, ${place}, got GPUs in the same decision`;
  const why =
    reason === undefined
      ? "had no recorded reason for waiting"
      : `${reason.code}: ${reason.message}`;
  return position < own ? `${name}, ${place}: ${why}` : `${name} was behind it, ${place}: ${why}`;
}
