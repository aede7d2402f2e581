/** @file Small workloads and fleets for tests of the simulator. */
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { schedulerWith } from "../../simulator/scheduler.ts";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import type { SimulationOptions } from "../../simulator/options.ts";
import type { Workload, WorkloadJob } from "../../simulator/workload.ts";
import { DECIDE_POLICIES } from "../../scheduling/cycle/decide.ts";

export const GPUS_8: FleetShape = fleetOf([8]);

/** Costs nothing but the job's own time, so that a schedule can be worked out by hand. */
export const FREE = {
  decisionMs: 0,
  cycleIntervalMs: 0,
  deliveryMs: 0,
  startMs: 0,
  checkpointMs: 0,
  restartMs: 0,
};

export const job = (
  id: string,
  settings: Pick<WorkloadJob, "submittedAtMs" | "gpus" | "durationMs"> & Partial<WorkloadJob>,
): WorkloadJob => ({ id, class: "training", tenant: "t", ...settings });

export const workloadOf = (jobs: readonly WorkloadJob[]): Workload => ({
  name: "by hand",
  jobs,
  tenants: [],
  notes: [],
});

export const optionsFor = (
  jobs: readonly WorkloadJob[],
  more: Partial<SimulationOptions> = {},
): SimulationOptions => ({
  fleet: GPUS_8,
  workload: workloadOf(jobs),
  policy: "tawfq",
  openScheduler: schedulerWith(DECIDE_POLICIES),
  seed: 1,
  costs: FREE,
  keepsJobs: true,
  ...more,
});
