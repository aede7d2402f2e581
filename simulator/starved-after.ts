/**
 * @file The age from which a job counts as starved: beyond what the proofs of the queue and of the cycle allow.
 *
 * cycle.ts: a request starts within Q + (H + 1) · (PREEMPTIBLE_BY_INFERENCE_MS + T), where the queue brings it to the front within Q, at
 * most H reservations hold GPUs at a time, and no run lasts longer than T. Q is the queue's bound (starvation.ts) with all that its flow
 * and its siblings ask for in the whole workload: valid whatever the order is, and finite for a workload that ends. T is the
 * longest run of the workload at half its size and the worst spread of all.
 */

import type { FleetShape } from "../domain/fleet/fleet.ts";
import { PREEMPTIBLE_BY_INFERENCE_MS } from "../scheduling/reservation/access.ts";
import {
  costOfParts,
  openSpread,
  PAPER,
  type FleetSpread,
} from "../scheduling/placement/spread.ts";
import { starvationBoundMs } from "./starvation.ts";
import { paperFleet } from "./paper-fleet.ts";
import type { Workload } from "./workload.ts";

/** As the cycle has it for TAWFQ. */
const RESERVATIONS = 8;

export function starvedAfterMs({ jobs }: Workload, shape: FleetShape = paperFleet()): number {
  const spread = openSpread(shape);
  const fleetGpus = shape.clusters
    .flatMap(({ hosts }) => hosts)
    .reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const stretchBySize = new Map<number, number>();
  let askedGpuMs = 0;
  let longestMs = 0;
  let largestGpus = 1;
  for (const { gpus, minGpus = gpus, durationMs } of jobs) {
    const stretch = stretchBySize.get(gpus) ?? worstStretch(gpus, spread);
    stretchBySize.set(gpus, stretch);
    askedGpuMs += gpus * durationMs * stretch;
    longestMs = Math.max(longestMs, ((durationMs * gpus) / minGpus) * stretch);
    largestGpus = Math.max(largestGpus, gpus);
  }
  const queueMs = starvationBoundMs({
    busyGpus: fleetGpus - largestGpus + 1,
    passedGpus: 0,
    ownGpuMs: askedGpuMs,
    heldGpuMs: 0,
    levels: [],
  });
  return queueMs + (RESERVATIONS + 1) * (PREEMPTIBLE_BY_INFERENCE_MS + longestMs);
}

/** How much longer a gang runs than at its best, when every GPU of it lies as far from the others as the fleet allows. */
function worstStretch(gpus: number, spread: FleetSpread): number {
  const hosts = [...spread.layout.values()];
  const gpuType = hosts[0]?.gpuType ?? "";
  const most = (count: number): number => Math.min(gpus, count);
  const distinct = (of: (host: (typeof hosts)[number]) => number): number =>
    most(new Set(hosts.map(of)).size);
  const parts = {
    domain: most(hosts.length),
    numa: most(hosts.length),
    host: most(hosts.length),
    rack: distinct(({ rack }) => rack),
    cluster: distinct(({ cluster }) => cluster),
    site: distinct(({ site }) => site),
  };
  return (1 + costOfParts(spread, gpuType, { gpus, parts })) * PAPER.oneDomain;
}
