/**
 * @file The rivals of `bench queue --only bursts`: each keeps as much free for inference as the bar allows ours.
 *
 * *Fixed partition*: inference runs on hosts of its own and nowhere else, as many as it holds on average and what is kept free; training runs
 * on the others. All other rivals keep the part free for inference anywhere (`fixedHeadroomShare`), and refill it as jobs end; those
 * that preempt do so for jobs that wait. All let gangs wait for compact places, as in `bench traces`.
 */

import { easy, fifoBackfill, tawfq } from "../../scheduling/cycle/policy-sets.ts";
import type { Policies } from "../../scheduling/cycle/policies.ts";
import * as rivals from "../../scheduling/cycle/service-rivals.ts";
import { byPriority } from "../../scheduling/queue/fifo.ts";
import { GPUS_PER_HOST, paperFleet } from "../../simulator/paper-fleet.ts";
import type { Workload } from "../../simulator/workload.ts";
import type { BurstRival } from "../queue.ts";
import { FLEET_GPUS, type BurstCase } from "./burst-workload.ts";

export interface BurstEntrant {
  readonly name: BurstRival | "tawfq";
  readonly policies: (its: BurstCase) => Policies;
  /** What the policy sees of the workload. */
  readonly workload?: (workload: Workload, its: BurstCase) => Workload;
}

const { compact, inWeights } = rivals;

const keepingFree =
  (policies: Policies): BurstEntrant["policies"] =>
  ({ kept }) => ({ ...policies, fixedHeadroomShare: kept });

export const OURS: BurstEntrant = { name: "tawfq", policies: () => tawfq };

export const BURST_ENTRANTS: Readonly<Record<BurstRival, BurstEntrant>> = Object.freeze({
  partition: {
    name: "partition",
    policies: () => compact(fifoBackfill),
    workload: partitioned,
  },
  "fifo-backfill": { name: "fifo-backfill", policies: keepingFree(compact(fifoBackfill)) },
  easy: { name: "easy", policies: keepingFree(compact(easy)) },
  las: { name: "las", policies: keepingFree(rivals.las) },
  qssf: { name: "qssf", policies: keepingFree(rivals.qssf) },
  "fifo-weights": {
    name: "fifo-weights",
    policies: keepingFree(inWeights(fifoBackfill, byPriority)),
  },
  "las-weights": { name: "las-weights", policies: keepingFree(rivals.lasInWeights) },
  "qssf-weights": { name: "qssf-weights", policies: keepingFree(rivals.qssfInWeights) },
});

/** Every n-th host of the fleet is inference's, so that each site has its part. */
function partitioned(workload: Workload, { inference, kept }: BurstCase): Workload {
  const hosts = paperFleet().clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
  const count = Math.ceil(((inference + kept) * FLEET_GPUS) / GPUS_PER_HOST);
  const isOurs = (at: number): boolean =>
    Math.floor(((at + 1) * count) / hosts.length) > Math.floor((at * count) / hosts.length);
  const own = hosts.filter((_, at) => isOurs(at));
  const others = hosts.filter((_, at) => !isOurs(at));
  const jobs = workload.jobs.map((job) => ({
    ...job,
    constraints: { hosts: job.class === "inference" ? own : others },
  }));
  return { ...workload, jobs };
}
