/** @file What the commands of a gang become in a world, as `workflows/gang/` carries them out: for a job, or for a lease of an array. */

import type { GangCommand } from "../../machines/gang/gang-commands.ts";
import type { GangAnswer, RunOutcome } from "../../machines/gang/gang-state.ts";
import { mayHaveLease } from "../../machines/fleet/view.ts";
import type { RunCause, RunReport, StopReport } from "../../protocol/agent-contract.ts";
import { runOn, stopOn } from "../hosts/agent.ts";
import type { Agents } from "../hosts/agents.ts";
import type { Process, Task } from "../kernel/process.ts";
import type { Activity, ActivityOutcome } from "../temporal/activity.ts";
import type { AnyRun } from "../temporal/workflow.ts";
import { ask } from "./questions.ts";
import { askFleet, type Site } from "./site.ts";

export interface GangPorts {
  readonly site: Site;
  readonly agents: Agents;
  /** Activities of a job's gangs that are watched, by the ids of their commands. */
  readonly runs: Map<string, Activity>;
}

export function carryOutGang(
  { site, agents, runs }: GangPorts,
  command: GangCommand,
  { run, answer }: { readonly run: AnyRun; readonly answer: (event: GangAnswer) => void },
): void {
  if (command.kind === "stop-watching") {
    for (const id of command.ids) runs.get(id)?.cancel();
    return;
  }
  const { id, host } = command;
  if (command.kind === "find-host")
    return ask(site, run, function* (process) {
      const found = yield* askFleet(site, process, {
        fleet: command.fleetWorkflowId,
        question: ({ ledger }) => ledger.hosts.get(host)?.agent ?? null,
      });
      if (found.kind === "failed") return undefined;
      const agent = found.kind === "answer" ? found.value : null;
      const gone = agent === null ? yield* isGone(site, process, command) : false;
      if (gone === undefined) return undefined;
      return () => answer({ kind: "found", id, host, agent, ...(gone && { isLeaseGone: true }) });
    });
  const { scheduleToStartMs, startToCloseMs, heartbeatMs } = command.timeouts;
  const timeouts = { scheduleToStartMs, startToCloseMs, heartbeatMs };
  if (command.kind === "stop") {
    site.activity<StopReport>(run, {
      ...timeouts,
      queue: command.agent.orderQueue,
      name: id,
      maxAttempts: 2,
      body: (attempt) => stopOn(agents, attempt, command.order),
      onEnd: (outcome) =>
        answer({
          kind: "stopped",
          id,
          host,
          outcome:
            outcome.kind === "done"
              ? { kind: "confirmed", report: outcome.value }
              : { kind: "failed" },
        }),
    });
    return;
  }
  const activity = site.activity<RunReport>(run, {
    ...timeouts,
    queue: command.agent.runQueue,
    name: id,
    maxAttempts: 1,
    isCancelAwaited: true,
    body: (attempt) => runOn(agents, attempt, { order: command.order, sender: run.runId }),
    onEnd: (outcome) => {
      runs.delete(id);
      const atMs = site.server.clockMs();
      answer({ kind: "ran", id, host, outcome: runOutcomeOf(outcome, atMs) });
    },
  });
  runs.set(id, activity);
}

/** Undefined where the fleet does not answer. */
function* isGone(
  site: Site,
  process: Process,
  { fleetWorkflowId: fleet, lease }: Extract<GangCommand, { kind: "find-host" }>,
): Task<boolean | undefined> {
  if (lease === undefined) return false;
  const found = yield* askFleet(site, process, {
    fleet,
    question: ({ ledger }) => mayHaveLease(ledger, lease, site.server.clockMs()),
  });
  if (found.kind === "failed") return undefined;
  return found.kind === "answer" && !found.value;
}

/** As `workflows/gang/run-finding.ts` reads a failure. */
function runOutcomeOf(outcome: ActivityOutcome<RunReport>, atMs: number): RunOutcome {
  if (outcome.kind === "done") return { kind: "reported", report: outcome.value };
  if (outcome.kind === "cancelled") return { kind: "cancelled" };
  const cause = (code: RunCause["code"], message: string): RunCause => ({ code, message, atMs });
  if (outcome.kind === "timed out")
    return {
      kind: "failed",
      means: outcome.isUntaken ? "not taken" : "silent",
      cause: cause("HOST_LOST", outcome.isUntaken ? "no agent took the run" : "the host is silent"),
    };
  switch (outcome.code) {
    case "STALE_TOKEN":
    case "GANG_NOT_READY":
      return {
        kind: "failed",
        means: "nothing runs",
        cause: cause(outcome.code, outcome.code),
      };
    case "HOST_REFUSED":
      return {
        kind: "failed",
        means: "never started",
        cause: cause("HOST_REFUSED", "the host refused"),
      };
    case "HOST_LOST":
      return { kind: "failed", means: "silent", cause: cause("HOST_LOST", "the agent ends") };
    default:
      return { kind: "failed", means: "broken", cause: cause("HOST_REFUSED", outcome.code) };
  }
}
