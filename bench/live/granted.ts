/**
 * @file How soon a job on an idle fleet is granted and runs, beside a bare round trip between two workflows, in turns.
 *
 * Granted: from the time of the job's first history event to that of the event with the grant's signal. Round trip: from the event with which
 * the caller's signal was accepted to that of the answer's signal. Both are the server's own clock. Running: from the client's clock
 * before the submit call to the agent's clock when the process ran, on one machine.
 */

import type { temporal as proto } from "@temporalio/proto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Floor } from "../floor/floor.ts";
import { roundTripUpdate } from "../floor/workflows.ts";
import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { quantile, spreadOf, type Spread } from "../statistics.ts";
import type { BenchWorld } from "./world.ts";

type HistoryEvent = proto.api.history.v1.IHistoryEvent;

/** Round trips between two bare workflows. */
const MOST_TO_GRANT = 1.5;
const MOST_TO_RUN = 2.5;
/** The first rounds pay for caches and compilers of both sides. */
const WARM_UP = 5;
/** After a job has ended its last word is still on its way to the fleet. */
const QUIET_MS = 150;

interface GrantedAnswer {
  readonly bars: readonly Bar[];
  readonly details: Readonly<Record<string, Spread>>;
}

export async function measureGranted(
  world: BenchWorld,
  floor: Floor,
  request: BenchRequest,
): Promise<GrantedAnswer> {
  const rounds = request.size("rounds");
  const grantedMs: number[] = [];
  const runningMs: number[] = [];
  const endedMs: number[] = [];
  const caller = world.temporal.workflow.getHandle(floor.callerId);
  for (let round = -WARM_UP; round < rounds; round += 1) {
    world.check();
    await caller.executeUpdate(roundTripUpdate);
    await sleep(QUIET_MS);
    const times = await oneJob(world, `granted-${String(round + WARM_UP)}`);
    await sleep(QUIET_MS);
    if (round < 0) continue;
    grantedMs.push(times.grantedMs);
    runningMs.push(times.runningMs);
    endedMs.push(times.endedMs);
    if ((round + 1) % 20 === 0) request.say(`granted: ${String(round + 1)} of ${String(rounds)}`);
  }
  const tripMs = roundTrips(await eventsOf(world, floor.callerId)).slice(WARM_UP);
  const trip = quantile(tripMs, 0.5);
  const granted = quantile(grantedMs, 0.5);
  const running = quantile(runningMs, 0.5);
  return {
    bars: [
      barOf({ id: "round-trip-p50", unit: "ms", target: REPORTED, got: trip }),
      barOf({ id: "granted-p50", unit: "ms", target: REPORTED, got: granted }),
      barOf({
        id: "granted-ratio",
        unit: "×",
        target: atMost(MOST_TO_GRANT),
        got: granted / trip,
        note: `${String(grantedMs.length)} jobs and ${String(tripMs.length)} round trips in turns, by the times of history events`,
      }),
      barOf({ id: "running-p50", unit: "ms", target: REPORTED, got: running }),
      barOf({
        id: "running-ratio",
        unit: "×",
        target: atMost(MOST_TO_RUN),
        got: running / trip,
        note: "from before the submit call until the process runs, over the same round trip",
      }),
      barOf({ id: "running-p99", unit: "ms", target: REPORTED, got: quantile(runningMs, 0.99) }),
    ],
    details: {
      roundTripMs: spreadOf(tripMs),
      grantedMs: spreadOf(grantedMs),
      runningMs: spreadOf(runningMs),
      endedMs: spreadOf(endedMs),
    },
  };
}

interface JobTimes {
  readonly grantedMs: number;
  readonly runningMs: number;
  readonly endedMs: number;
}

/** What a job needs of the world that it runs in. */
export type FleetOfJobs = Pick<BenchWorld, "fleet" | "temporal" | "orbweaver">;

export async function oneJob(world: FleetOfJobs, key: string): Promise<JobTimes> {
  const file = { name: "granted", gang: { gpus: 1 }, run: { command: ["true"] } };
  const submittedAtMs = Date.now();
  const { jobId } = await world.orbweaver.submit(file, {
    idempotencyKey: `${world.fleet}-${key}`,
  });
  const handle = world.temporal.workflow.getHandle(jobId);
  await handle.result();
  const { attempts } = await world.orbweaver.job(jobId).view();
  const startedAtMs = attempts[0]?.startedAtMs;
  if (startedAtMs === undefined) throw new Error(`job ${jobId} ended without having started`);
  const events = await eventsOf(world, jobId);
  const beganAtMs = timeOf(events[0]);
  return {
    grantedMs: timeOf(events.find((event) => signalOf(event) === "grant")) - beganAtMs,
    runningMs: startedAtMs - submittedAtMs,
    endedMs: timeOf(events.at(-1)) - beganAtMs,
  };
}

/** Each from the caller's order to signal to the next answer. */
function roundTrips(events: readonly HistoryEvent[]): readonly number[] {
  const trips: number[] = [];
  let askedAtMs: number | undefined;
  for (const event of events) {
    if (event.signalExternalWorkflowExecutionInitiatedEventAttributes) {
      askedAtMs = timeOf(event);
    } else if (signalOf(event) === "answer" && askedAtMs !== undefined) {
      trips.push(timeOf(event) - askedAtMs);
      askedAtMs = undefined;
    }
  }
  return trips;
}

const signalOf = (event: HistoryEvent): string | null | undefined =>
  event.workflowExecutionSignaledEventAttributes?.signalName;

/** Milliseconds with their fraction. */
function timeOf(event: HistoryEvent | undefined): number {
  const time = event?.eventTime;
  if (!time) return NaN;
  return Number(time.seconds ?? 0) * 1_000 + (time.nanos ?? 0) / 1e6;
}

async function eventsOf(world: FleetOfJobs, workflowId: string): Promise<readonly HistoryEvent[]> {
  const { events } = await world.temporal.workflow.getHandle(workflowId).fetchHistory();
  return events ?? [];
}
