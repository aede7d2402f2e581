/** @file A gang's machine, what it is given, and a world of hosts that answers its commands. */

import { parseHostId, type HostId } from "../../../domain/values/ids.ts";
import type { GangCommand, GangInput } from "../../../machines/gang/gang-commands.ts";
import type { Gang, GangEvent, RunFailure } from "../../../machines/gang/gang-state.ts";
import { gangDueAtMs, openGang, stepGang } from "../../../machines/gang/gang.ts";
import type { Tick } from "../../../machines/machine.ts";
import type { RunReport } from "../../../protocol/agent-contract.ts";
import { specOf } from "../../domain/job-text.ts";
import { grantOf, reportOf, START_MS } from "../job/builders.ts";

export type Of<Kind extends GangCommand["kind"]> = Extract<GangCommand, { readonly kind: Kind }>;

export const hostsOf = (count: number): readonly HostId[] =>
  Array.from({ length: count }, (_, at) => parseHostId(`alpha/a${at + 1}`));

export interface PlayedGang {
  readonly gang: () => Gang;
  readonly feed: (event: GangEvent | Tick) => void;
  readonly commands: readonly GangCommand[];
  /** Commands that were not answered yet, oldest first. */
  readonly open: <Kind extends "run" | "stop" | "find-host">(kind: Kind) => readonly Of<Kind>[];
  readonly ran: (at: number, report?: Partial<RunReport>) => void;
  readonly failed: (at: number, means: RunFailure) => void;
  readonly cancelled: (at: number) => void;
  readonly stopped: (at: number, more?: object) => void;
  readonly notStopped: (at: number) => void;
  readonly found: (at: number, epoch: string | null) => void;
  /** No agent, and the fleet has let go of the lease. */
  readonly foundNoLease: (at: number) => void;
  /** Up to the next time that the gang waits for. */
  readonly wait: () => void;
  readonly now: () => number;
}

export const agentOf = (epoch: string) => ({
  epoch,
  runQueue: `run-${epoch}`,
  orderQueue: `orders-${epoch}`,
  address: "127.0.0.1",
});

/** `located`: hosts whose agents the grant names; all when absent. */
export function playGang({
  hosts: count = 2,
  located = count,
  file = {},
  taskBatch,
  isLeaseAsked,
  hearsOfFaults,
}: {
  readonly hosts?: number;
  readonly located?: number;
  readonly file?: object;
  readonly taskBatch?: GangInput["taskBatch"];
  readonly isLeaseAsked?: true;
  readonly hearsOfFaults?: true;
} = {}): PlayedGang {
  let nowMs = START_MS;
  const hosts = hostsOf(count);
  const spec = specOf({ name: "g", gang: count, run: { command: ["true"] }, ...file });
  const granted = grantOf(1, nowMs, {
    gpus: hosts.map((host) => ({ host, mask: 1 })),
  }) as GangInput["grant"];
  const agents = granted.agents
    .slice(0, located)
    .map(({ host }) => ({ host, agent: agentOf("1") }));
  const { state, commands: opening } = openGang(
    {
      jobId: granted.lease.jobId,
      workflowRunId: "run-1",
      fleetWorkflowId: "orbweaver-fleet-eu",
      spec,
      grant: { ...granted, agents },
      attempt: 1,
      ...(taskBatch !== undefined && { taskBatch }),
      ...(isLeaseAsked === true && { isLeaseAsked }),
      ...(hearsOfFaults === true && { hearsOfFaults }),
    },
    nowMs,
  );
  let gang = state;
  const commands: GangCommand[] = [...opening];
  const answered = new Set<GangCommand>();
  const feed = (event: GangEvent | Tick): void => {
    const step = stepGang(gang, event, nowMs);
    gang = step.state;
    commands.push(...step.commands);
  };
  const open = <Kind extends "run" | "stop" | "find-host">(kind: Kind): readonly Of<Kind>[] =>
    commands.filter(
      (command): command is Of<Kind> => command.kind === kind && !answered.has(command),
    );
  const take = <Kind extends "run" | "stop" | "find-host">(kind: Kind, at: number): Of<Kind> => {
    const command = open(kind).find(
      (each: GangCommand) => "host" in each && each.host === hosts[at],
    );
    if (command === undefined) throw new Error(`no ${kind} is open on host ${at}`);
    answered.add(command);
    return command;
  };
  return {
    gang: () => gang,
    feed,
    commands,
    open,
    ran: (at, more) => {
      const { id, host } = take("run", at);
      const report = reportOf(host, nowMs, more);
      feed({ kind: "ran", id, host, outcome: { kind: "reported", report } });
    },
    failed: (at, means) => {
      const { id, host } = take("run", at);
      const code = means === "faulty" ? "HOST_LOST" : "HOST_REFUSED";
      const cause = { code, message: means, atMs: nowMs } as const;
      feed({ kind: "ran", id, host, outcome: { kind: "failed", means, cause } });
    },
    cancelled: (at) => {
      const { id, host } = take("run", at);
      feed({ kind: "ran", id, host, outcome: { kind: "cancelled" } });
    },
    stopped: (at, more = {}) => {
      const { id, host } = take("stop", at);
      const report = { host, hadProcesses: true, ...more };
      feed({ kind: "stopped", id, host, outcome: { kind: "confirmed", report } });
    },
    notStopped: (at) => {
      const { id, host } = take("stop", at);
      feed({ kind: "stopped", id, host, outcome: { kind: "failed" } });
    },
    found: (at, epoch) => {
      const { id, host } = take("find-host", at);
      feed({ kind: "found", id, host, agent: epoch === null ? null : agentOf(epoch) });
    },
    foundNoLease: (at) => {
      const { id, host } = take("find-host", at);
      feed({ kind: "found", id, host, agent: null, isLeaseGone: true });
    },
    wait: () => {
      nowMs = gangDueAtMs(gang);
      feed({ kind: "tick" });
    },
    now: () => nowMs,
  };
}
