/** @file `orbweaver explain JOB --decision`: why it got its GPUs when it did, and why others before or behind it did not. */

import { DefaultLogger, Runtime } from "@temporalio/worker";
import { OrbweaverError } from "../domain/failure.ts";
import { jobId as toJobId } from "../domain/ids.ts";
import { decisionOn, type Decision, type Passed } from "../scheduling/decision.ts";
import { recordedRuns } from "../workers/recorded-fleet.ts";
import { counted, durationText, timeText } from "./duration.ts";
import { gpusText } from "./place.ts";
import type { Session } from "./session.ts";
import { factsText } from "./table.ts";

/** Runs of the fleet that are looked through, the newest first. */
const MAX_RUNS = 20;

export async function recordedDecision(
  { temporal, fleet, connection }: Pick<Session, "temporal" | "fleet" | "connection">,
  job: string,
): Promise<Decision> {
  // What a worker says of its own beginning and end is nobody's answer.
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
    `no grant to ${job} is in the last ${counted(runs, "run")} of fleet ${fleet}. Was it ever granted? Temporal forgets closed runs after the namespace's retention.`,
  );
}

/** `than`: only this other job. */
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
          `${request.class}: had ${String(ofClass.runningGpus)} GPUs, ${String(ofClass.dueGpus)} were due, owed ${owed(ofClass.deficitGpuSeconds)}`,
      ],
      [
        "tenant",
        tenant &&
          `${request.tenant}: had ${String(tenant.runningGpus)} GPUs, ${String(tenant.dueGpus)} were due, owed ${owed(tenant.deficitGpuSeconds)}`,
      ],
      [
        than === undefined ? "passed" : "than",
        passed.length === 0
          ? "nobody before it in line was passed"
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
  const place = `${String(position)} in line`;
  if (isGranted) return `${name}, ${place}, got GPUs in the same decision`;
  const why =
    reason === undefined ? "had not been told why it waits" : `${reason.code}: ${reason.message}`;
  return position < own ? `${name}, ${place}: ${why}` : `${name} was behind it, ${place}: ${why}`;
}
