/** @file The workflow of a job in a world: its life, and its activities as `workflows/job/` carries them out. */

import { scheduledPart } from "../../domain/lease/gang-request.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import { jobId, runId, type JobId } from "../../domain/values/ids.ts";
import { mayHaveLease } from "../../machines/fleet/view.ts";
import { openJob } from "../../machines/job/job.ts";
import type { JobCommand, JobEvent } from "../../machines/job/job-state.ts";
import { JOB_RULES, type Admission } from "../../protocol/control-contract.ts";
import type { PredecessorNews, PredecessorState } from "../../protocol/predecessors.ts";
import type { Agents } from "../hosts/agents.ts";
import { sleep, type Process, type Task } from "../kernel/process.ts";
import type { Activity } from "../temporal/activity.ts";
import type { Base } from "../temporal/reset.ts";
import { openRun } from "../temporal/run.ts";
import type { WorkflowType } from "../temporal/workflow.ts";
import { carryOutArray } from "./array.ts";
import { carryOutGang, type GangPorts } from "./gang.ts";
import { reviveFleet } from "./inbox.ts";
import { leaveLobby } from "./lobby.ts";
import {
  lifeMachine,
  lifeOf,
  outcomeOf,
  type JobLife,
  type JobRun,
  type LifeCommand,
  type LifeEvent,
} from "./job-life.ts";
import { ask, FAILED } from "./questions.ts";
import { askFleet, JOB_QUEUE, type Site } from "./site.ts";

/** What a client submits. */
export interface JobInput {
  readonly spec: JobSpec;
}

const FORGET_MS = 500;
const FORGET_ROUNDS = 20;

export function registerJob(site: Site, agents: Agents, keep: (run: JobRun) => void): void {
  const { server, planted } = site;
  const machine = lifeMachine(planted);
  server.register("job", (identity, input, base) => {
    const { spec } = input as JobInput; // of the world's own users
    const runs = new Map<string, Activity>();
    const type: WorkflowType<JobLife, LifeEvent, LifeCommand> = {
      queue: JOB_QUEUE,
      machine,
      open: ({ workflowId, runId: run, startedAtMs }, nowMs) => {
        const { state, commands } = openJob(
          {
            jobId: jobId(workflowId),
            runId: runId(run),
            home: "default",
            submittedAtMs: startedAtMs,
            isListed: true,
          },
          nowMs,
        );
        return { state: lifeOf(state), commands };
      },
      signal: (name, payload) => eventOf(name, payload),
      atOnce: () => undefined,
      isLocal: ({ kind }) => kind === "admit" || kind === "tell" || kind === "leave-lobby",
      local: (command, { process }) => local(site, process, { command, spec }),
      carryOut: (command, run) => carryOut({ site, agents, runs }, command, run),
      endOf: (life) => {
        const outcome = outcomeOf(life);
        return outcome && { kind: outcome.kind };
      },
    };
    const from = base as Base<JobLife, LifeEvent, LifeCommand> | undefined; // of a job
    const run = openRun(server, type, { ...identity, base: from });
    keep(run);
    return run;
  });
}

function eventOf(name: string, payload: unknown): LifeEvent {
  switch (name) {
    case "grant":
      return { kind: "grant", offer: payload };
    case "grants":
      return { kind: "grants", offers: payload };
    case "pending":
      return { kind: "pending", note: payload };
    case "preempt":
      return { kind: "preempt", order: payload };
    case "fenced":
      return { kind: "fenced", loss: payload };
    case "call-in":
      return { kind: "call-in", call: payload };
    case "follow":
      return { kind: "follow", note: payload };
    case "predecessor":
      return { kind: "predecessor", note: payload };
    case "assert":
      return { kind: name, question: payload };
    case "kill":
    case "cancel":
      return { kind: name };
    default:
      return { kind: "junk" };
  }
}

function* local(
  site: Site,
  process: Process,
  { command, spec }: { readonly command: LifeCommand; readonly spec: JobSpec },
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
  const notified =
    spec.isHeld || spec.after !== undefined
      ? ({ kind: "silent" } as const)
      : yield* site.tellFleet(process, entry.fleetWorkflowId, { kind: "request", request });
  return notified && { kind: "admitted", rules: JOB_RULES, spec, runId: run, notified };
}

function carryOut(ports: GangPorts, command: LifeCommand, run: JobRun): void {
  const { site } = ports;
  const answer = (event: LifeEvent): void => run.arrive({ kind: "event", event });
  switch (command.kind) {
    case "run":
    case "stop":
    case "find-host":
    case "stop-watching":
      return carryOutGang(ports, command, { run, answer });
    case "of array":
      return carryOutArray(ports, command.command, run);
    case "follow-jobs":
      return ask(site, run, function* (process) {
        const { id, jobs, follower } = command;
        const news: PredecessorNews[] = [];
        for (const job of jobs) {
          const state = yield* look(site, process, { job, follower });
          if (state !== undefined) news.push({ job, state });
        }
        if (news.length === 0) return undefined;
        return () => answer({ kind: "followed", id, news });
      });
    case "tell-followers":
      return tellFollowers(site, run, {
        followers: command.followers,
        state: "running",
        onEnd: () => undefined,
      });
    case "tell end":
      return tellFollowers(site, run, { ...command, onEnd: () => answer({ kind: "end told" }) });
    case "has-lease":
      return ask(site, run, function* (process) {
        const { fleetWorkflowId: fleet, lease } = command;
        const found = yield* askFleet(site, process, {
          fleet,
          question: ({ ledger }) => mayHaveLease(ledger, lease, site.server.clockMs()),
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

/** Undefined of a job that cannot be reached. With a follower: the word first, then the look, as `activities/follow-jobs.ts` has it. */
function* look(
  { network, server, jobOf }: Site,
  process: Process,
  { job, follower }: { readonly job: JobId; readonly follower: JobId | undefined },
): Task<PredecessorState | undefined> {
  const described = (): PredecessorState => {
    const last = server.lastRun(job)?.run;
    if (last === undefined) return "gone";
    const end = last.end()?.kind;
    if (end !== undefined) return end === "continued" ? "pending" : end;
    const life = jobOf(job)?.state();
    const shown = life?.job.shown;
    if (life?.array !== undefined) return life.array.leases.size > 0 ? "running" : "pending";
    return shown === "held" || shown === "running" ? shown : "pending";
  };
  const first = yield* network.call(process, described);
  if (!first.isHeard) return undefined;
  if (follower === undefined || server.openRun(job) === undefined) return first.value;
  const word = yield* network.call(process, () =>
    server.signal(job, { name: "follow", payload: { job: follower } }),
  );
  if (!word.isHeard) return first.value;
  const second = yield* network.call(process, described);
  return second.isHeard ? second.value : first.value;
}

/** Failures cost a word: every follower also looks for itself. */
function tellFollowers(
  { activity, network, server }: Site,
  run: JobRun,
  {
    followers,
    state,
    onEnd,
  }: {
    readonly followers: readonly JobId[];
    readonly state: PredecessorState;
    readonly onEnd: () => void;
  },
): void {
  const payload = { job: run.workflowId, state };
  activity<undefined>(run, {
    queue: JOB_QUEUE,
    name: "tell followers",
    startToCloseMs: 60_000,
    maxAttempts: 5,
    *body({ process }) {
      let isHeard = true;
      for (const to of followers) {
        const reply = yield* network.call(process, () =>
          server.signal(to, { name: "predecessor", payload }),
        );
        isHeard &&= reply.isHeard;
      }
      return isHeard ? { kind: "done", value: undefined } : FAILED;
    },
    onEnd,
  });
}
