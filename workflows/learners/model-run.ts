/** @file The state of a bandwidth model's workflow, which its steps change, and what it shows of itself. */

import { setCurrentDetails } from "@temporalio/workflow";
import type {
  BandwidthModelView,
  ModelMemory,
  ServingVersion,
  TrainingNote,
} from "../../protocol/messages.ts";
import { outliersOf } from "./model-memory.ts";
import { modelSummary } from "./model-summary.ts";

export const EVENTS_PER_ACTIVITY = 6;
const MAX_OUTLIERS = 20;

/** An update that waits for its turn. */
export type ModelOrder =
  | {
      readonly kind: "train";
      readonly isFromNothing: boolean;
      readonly done: (note: TrainingNote) => void;
    }
  | {
      readonly kind: "rollback";
      readonly version: string | undefined;
      readonly done: (serving: ServingVersion) => void;
      readonly failed: (error: unknown) => void;
    };

/** One run of the workflow; its functions change it. */
export interface ModelRun {
  readonly fleet: string;
  readonly cluster: string;
  /** Part of the orders' names, so that an order that is repeated is known again. */
  readonly firstExecutionRunId: string;
  readonly orders: ModelOrder[];
  memory: ModelMemory;
  busy: BandwidthModelView["busy"];
  /** Events of its history, by its own count. */
  events: number;
  /** The fleet is to be told which version serves: when it is new, when this run begins, and when the fleet asks. */
  isReportDue: boolean;
  /** Not before these times: the last try failed a moment ago. */
  tellAtMs: number;
  openAtMs: number;
  evaluateAtMs: number;
  /** New samples have waited long enough to be evaluated. */
  evaluateByMs: number;
  /** Whether the version that serves has been read from the registry. */
  isOpen: boolean;
}

export function viewOf({ fleet, cluster, memory, busy }: ModelRun): BandwidthModelView {
  return {
    fleet,
    cluster,
    ...(memory.serving !== undefined && { serving: memory.serving }),
    isHeld: memory.isHeld,
    samples: memory.samples.length,
    fresh: memory.fresh,
    repeated: memory.repeated,
    unfit: memory.unfit,
    outliers: outliersOf(memory).slice(-MAX_OUTLIERS),
    ...(memory.drift !== undefined && { drift: memory.drift }),
    ...(memory.lastTraining !== undefined && { lastTraining: memory.lastTraining }),
    ...(busy !== undefined && { busy }),
  };
}

export function enter(run: ModelRun, next: BandwidthModelView["busy"]): void {
  run.busy = next;
  setCurrentDetails(modelSummary(viewOf(run)));
}
