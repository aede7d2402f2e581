/** @file What all workflows of a world share: the server, the way to it, and whoever answers questions about a fleet or a job. */

import type { FleetState } from "../../machines/fleet/state.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { Network } from "../kernel/network.ts";
import type { Process, Task } from "../kernel/process.ts";
import type { Activity, ActivityOrder } from "../temporal/activity.ts";
import type { Server } from "../temporal/server.ts";
import type { AnyRun } from "../temporal/workflow.ts";
import type { JobRun } from "./job-life.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { CallOrder } from "../../protocol/lobby-contract.ts";
import type { NotifyResult } from "../../protocol/control-contract.ts";
import type { Planted } from "../planted.ts";

export interface Site {
  readonly kernel: Kernel;
  readonly network: Network;
  readonly server: Server;
  /** The open fleet as a query would see it; undefined where none is open. */
  readonly fleetOf: (workflowId: string) => FleetState | undefined;
  /** The same of its last run, which answers when it is closed, too. */
  readonly lastFleetOf: (workflowId: string) => FleetState | undefined;
  readonly jobOf: (workflowId: string) => JobRun | undefined;
  /** Undefined: the result is unknown. */
  readonly tellFleet: (
    from: Process,
    fleet: string,
    entry: InboxEntry,
  ) => Task<NotifyResult | undefined>;
  readonly activity: <Value>(run: AnyRun, order: ActivityOrder<Value>) => Activity;
  /** Heartbeat details of a job's open activities. */
  readonly beatsOf: (workflowId: string) => readonly unknown[];
  /** A lobby has called a job in. */
  readonly noteCall: (lobby: string, call: CallOrder) => void;
  readonly planted: Planted;
}

/** A query of a fleet: it fails where no worker answers; `none` where there is no fleet. */
export type Answer<Value> =
  | { readonly kind: "answer"; readonly value: Value }
  | { readonly kind: "none" }
  | { readonly kind: "failed" };

export function* askFleet<Value>(
  { network, server, fleetOf, lastFleetOf }: Site,
  from: Process,
  {
    fleet,
    question,
    mayBeClosed = false,
  }: {
    readonly fleet: string;
    readonly question: (state: FleetState) => Value;
    /** A closed run answers as well. */
    readonly mayBeClosed?: boolean;
  },
): Task<Answer<Value>> {
  const reply = yield* network.call(from, (): Answer<Value> => {
    if (server.openRun(fleet) === undefined && !mayBeClosed) return { kind: "none" };
    const state = mayBeClosed ? lastFleetOf(fleet) : fleetOf(fleet);
    if (state === undefined || !server.isAnswering(FLEET_QUEUE)) return { kind: "failed" };
    return { kind: "answer", value: question(state) };
  });
  return reply.isHeard ? reply.value : { kind: "failed" };
}

/** The workflow of the one fleet of a world. */
export const FLEET = "orbweaver-fleet-default";
export const FLEET_QUEUE = "fleet";
export const JOB_QUEUE = "jobs";
