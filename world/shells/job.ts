/** @file The workflow of a job in a world: its machine, and its activities as `workflows/job/` and `workflows/gang/` carry them out. */

import { scheduledPart } from "../../domain/lease/gang-request.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import { jobId, runId } from "../../domain/values/ids.ts";
import { jobMachine, openJob } from "../../machines/job/job.ts";
import type { Job, JobCommand, JobEvent } from "../../machines/job/job-state.ts";
import type { RunCause } from "../../protocol/agent-contract.ts";
import { JOB_RULES, type Admission } from "../../protocol/control-contract.ts";
import type { RunOutcome } from "../../machines/gang/gang-state.ts";
import type { GangCommand } from "../../machines/gang/gang-commands.ts";
import type { RunReport, StopReport } from "../../protocol/agent-contract.ts";
import { lobbyWorkflowId } from "../../protocol/names.ts";
import type { LobbyExit } from "../../protocol/lobby-contract.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import { sleep, type Process, type Task } from "../kernel/process.ts";
import type { Activity, ActivityEnd, ActivityOutcome } from "../temporal/activity.ts";
import { openRun } from "../temporal/run.ts";
import type { WorkflowRun, WorkflowType } from "../temporal/workflow.ts";
import { runOn, stopOn } from "../hosts/agent.ts";
import type { Agents } from "../hosts/agents.ts";
import { reviveFleet } from "./inbox.ts";
import { askFleet, JOB_QUEUE, type Site } from "./site.ts";

export type JobRun = WorkflowRun<Job, JobEvent>;

/** What a client submits. */
export interface JobInput {
  readonly spec: JobSpec;
}

const EVERYBODY_ELSE = "*" as TenantId; // OTHER_TENANTS
const FORGET_MS = 500;
const FORGET_ROUNDS = 20;

export function registerJob(site: Site, agents: Agents, keep: (run: JobRun) => void): void {
  const { server, planted } = site;
  const machine = planted.job?.(jobMachine) ?? jobMachine;
  server.register("job", (identity, input) => {
    const { spec } = input as JobInput; // of the world's own users
    const runs = new Map<string, Activity>();
    const type: WorkflowType<Job, JobEvent, JobCommand> = {
      queue: JOB_QUEUE,
      machine,
      open: ({ workflowId, runId: run, startedAtMs }, nowMs) =>
        openJob(
          {
            jobId: jobId(workflowId),
            runId: runId(run),
            home: "default",
            submittedAtMs: startedAtMs,
            isListed: true,
          },
          nowMs,
        ),
      signal: (name, payload) => eventOf(name, payload),
      atOnce: () => undefined,
      isLocal: ({ kind }) => kind === "admit" || kind === "tell" || kind === "leave-lobby",
      local: (command, { process }) => local(site, process, { command, spec }),
      carryOut: (command, run) => carryOut({ site, agents, runs }, command, run),
      endOf: ({ stage }) => {
        if (stage.kind === "array") return { kind: "failed" };
        return stage.kind === "over" ? { kind: stage.outcome.kind } : undefined;
      },
    };
    const run = openRun(server, type, identity);
    keep(run);
    return run;
  });
}

function eventOf(name: string, payload: unknown): JobEvent | undefined {
  switch (name) {
    case "grant":
      return { kind: "grant", offer: payload };
    case "pending":
      return { kind: "pending", note: payload };
    case "preempt":
      return { kind: "preempt", order: payload };
    case "fenced":
      return { kind: "fenced", loss: payload };
    case "call-in":
      return { kind: "call-in", call: payload };
    case "assert":
    case "kill":
    case "cancel":
      return { kind: name };
    default:
      return undefined;
  }
}

function* local(
  site: Site,
  process: Process,
  { command, spec }: { readonly command: JobCommand; readonly spec: JobSpec },
): Task<JobEvent | undefined> {
  switch (command.kind) {
    case "admit": {
      const admission = yield* admitted(site, process, { command, spec });
      return admission && { kind: "admission", admission };
    }
    case "tell": {
      const { id, fleetWorkflowId, entry, exit } = command;
      const result = yield* site.tellFleet(process, fleetWorkflowId, entry);
      if (result === undefined) return undefined;
      if (exit !== undefined) yield* leaveLobby(site, process, exit);
      return { kind: "told", id, result };
    }
    case "leave-lobby":
      yield* leaveLobby(site, process, command.exit);
      return { kind: "told", id: command.id, result: { kind: "delivered" } };
    default:
      return undefined;
  }
}

function* admitted(
  site: Site,
  process: Process,
  {
    command: { entry },
    spec,
  }: { readonly command: Extract<JobCommand, { kind: "admit" }>; readonly spec: JobSpec },
): Task<Admission | undefined> {
  const { jobId: id, runId: run, submittedAtMs, nowMs } = entry;
  const key = { jobId: id, runId: run, seq: 1, submittedAtMs, requestedAtMs: nowMs };
  const request = { ...scheduledPart(spec), ...key };
  const notified = spec.isHeld
    ? ({ kind: "silent" } as const)
    : yield* site.tellFleet(process, entry.fleetWorkflowId, { kind: "request", request });
  return notified && { kind: "admitted", rules: JOB_RULES, spec, notified };
}

/** A word that is lost costs a call in vain. */
function* leaveLobby(
  { network, server }: Site,
  process: Process,
  { fleet, tenant, ...payload }: LobbyExit,
): Task<void> {
  for (const at of [tenant, EVERYBODY_ELSE]) {
    const id = lobbyWorkflowId(fleet, at);
    const reply = yield* network.call(process, () =>
      server.signal(id, { name: "lobby-leave", payload }),
    );
    if (!reply.isHeard || reply.value) return;
  }
}

interface JobPorts {
  readonly site: Site;
  readonly agents: Agents;
  /** Activities of its gangs that are watched, by the ids of their commands. */
  readonly runs: Map<string, Activity>;
}

function carryOut(ports: JobPorts, command: JobCommand, run: JobRun): void {
  const { site, runs } = ports;
  const answer = (event: JobEvent): void => run.arrive({ kind: "event", event });
  switch (command.kind) {
    case "run":
    case "stop":
    case "find-host":
      return carryOutGang(ports, command, run);
    case "stop-watching":
      for (const id of command.ids) runs.get(id)?.cancel();
      return undefined;
    case "has-lease":
      return ask(site, run, function* (process) {
        const { fleetWorkflowId: fleet, lease } = command;
        const found = yield* askFleet(site, process, {
          fleet,
          question: ({ ledger }) => ledger.leases.has(lease),
        });
        if (found.kind === "failed") return undefined;
        const isThere = found.kind === "none" || found.value;
        return () => answer({ kind: "lease", id: command.id, isThere });
      });
    case "until-forgotten":
      return ask(site, run, function* (process) {
        const { fleetWorkflowId: fleet, jobId: id } = command;
        for (let round = 0; round < FORGET_ROUNDS; round += 1) {
          const found = yield* askFleet(site, process, {
            fleet,
            question: ({ ledger }) =>
              ledger.requests.has(id) ||
              [...ledger.leases.values()].some((each) => each.jobId === id),
          });
          if (found.kind === "none" || (found.kind === "answer" && !found.value))
            return () => answer({ kind: "forgotten", id: command.id });
          yield* site.network.call(process, () => reviveFleet(site.server, fleet));
          yield* sleep(site.kernel, FORGET_MS);
        }
        return undefined;
      });
    case "make-extras":
      return answer({ kind: "extras", id: command.id, report: null });
    default:
      return undefined;
  }
}

/** A short activity of the jobs' workers; the question is asked until it is answered. */
function ask(
  { activity }: Site,
  run: JobRun,
  question: (process: Process) => Task<(() => void) | undefined>,
): void {
  activity<() => void>(run, {
    queue: JOB_QUEUE,
    name: "question",
    startToCloseMs: 60_000,
    *body({ process }) {
      const value = yield* question(process);
      return value === undefined ? FAILED : { kind: "done", value };
    },
    onEnd: (outcome) => {
      if (outcome.kind === "done") outcome.value();
    },
  });
}

const FAILED: ActivityEnd<never> = { kind: "failed", code: "UNAVAILABLE" };

function carryOutGang(
  { site, agents, runs }: JobPorts,
  command: Extract<GangCommand, { readonly kind: "run" | "stop" | "find-host" }>,
  run: JobRun,
): void {
  const answer = (event: JobEvent): void => run.arrive({ kind: "event", event });
  const { id, host } = command;
  if (command.kind === "find-host")
    return ask(site, run, function* (process) {
      const found = yield* askFleet(site, process, {
        fleet: command.fleetWorkflowId,
        question: ({ ledger }) => ledger.hosts.get(host)?.agent ?? null,
      });
      if (found.kind === "failed") return undefined;
      const agent = found.kind === "answer" ? found.value : null;
      return () => answer({ kind: "found", id, host, agent });
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
    body: (attempt) => runOn(agents, attempt, command.order),
    onEnd: (outcome) => {
      runs.delete(id);
      const atMs = site.server.clockMs();
      answer({ kind: "ran", id, host, outcome: runOutcomeOf(outcome, atMs) });
    },
  });
  runs.set(id, activity);
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
