/**
 * @file The simulator as a library: workloads (read, drawn or made by hand) in, one plain document and a report out.
 *
 * Everything here is pure: no clock, no files, no randomness but the seed's. `runSimulation` runs to the end; `simulate` is a generator
 * that says how far it is.
 */

export { schedulerWith, type Scheduler, type OpenScheduler } from "./scheduler.ts";
export {
  DEFAULT_COSTS,
  DEFAULT_SAMPLES,
  DEFAULT_WINDOW,
  NO_FAILURES,
  type FailureRates,
  type SimulationCosts,
  type SimulationOptions,
  type SimulationProgress,
  type WindowRule,
} from "./options.ts";
export { fleetOf, paperFleet, type FleetRules } from "./paper-fleet.ts";
export { drawPaperMix, type ClassMix, type PaperMix } from "./paper-mix.ts";
export { nodeFleet } from "./readers/node-fleet.ts";
export { looksLikeNodes, readNodes, type NodeList, type NodeRow } from "./readers/nodes.ts";
export {
  readTrace,
  TRACE_FORMATS,
  traceFormatOf,
  type TraceFormat,
  type TraceOptions,
  type TraceReading,
} from "./readers/read-trace.ts";
export type { Counted, LoadSample, TraceAccount, TraceJobs, TraceLoad } from "./readers/trace.ts";
export { traceWorkload, type TraceWorkloadOptions } from "./readers/trace-workload.ts";
export { reportHtml, type ReportOptions } from "./report/page.ts";
export type {
  GpuSeconds,
  GroupFigures,
  JobRow,
  Sample,
  SimulationResult,
  Spread,
} from "./result.ts";
export { runSimulation, simulate } from "./simulate.ts";
export { gpuSecondsOf, type Workload, type WorkloadJob } from "./workload.ts";
