/**
 * @file The plan of a served model that stays is improved and certified while it runs, once a run, by a solver worker.
 *
 * Only where the solver that made the plan said so: its report names when. A run that ends before is not asked for; an answer that comes
 * after the run's end changes nothing.
 */

import type { Step } from "../machine.ts";
import { quiet } from "../steps.ts";
import type { InferenceFacts } from "../../domain/model/inference-facts.ts";
import type { AttemptView } from "../../protocol/job.ts";
import type { LaunchExtrasReport } from "../../protocol/launch-extras-contract.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { presentFleet } from "./cells.ts";
import { ask } from "./fleet-conversation.ts";
import type { Job, JobCommand } from "./job-state.ts";

export function polishLater(job: Job, report: LaunchExtrasReport | null, nowMs: number): Job {
  const { polish: _former, ...rest } = job;
  const terms = report?.polish;
  if (terms === undefined) return rest;
  const { afterMs, limitMs } = terms;
  return { ...rest, polish: { kind: "due", atMs: nowMs + afterMs, limitMs } };
}

export const polishDueAtMs = ({ stage, polish }: Job): number =>
  stage.kind === "running" && polish?.kind === "due" ? polish.atMs : Infinity;

export function askForPolish(job: Job, nowMs: number): Step<Job, JobCommand> {
  const { polish, spec, grant, cells, jobId } = job;
  if (polishDueAtMs(job) > nowMs || polish?.kind !== "due" || !spec || !grant) return quiet(job);
  const { state, commands } = ask(job, (id) => ({
    stage: job.stage,
    command: {
      kind: "polish-plan",
      id,
      order: {
        fleetWorkflowId: fleetWorkflowId(presentFleet(cells)),
        jobId,
        spec,
        gpus: grant.lease.gpus,
        limitMs: polish.limitMs,
      },
    },
  }));
  return { state: { ...state, polish: { kind: "asked", id: state.lane.count } }, commands };
}

export function polished(job: Job, id: number, facts: InferenceFacts | null): Job {
  const { polish, ...rest } = job;
  if (polish?.kind !== "asked" || polish.id !== id) return job;
  if (facts === null || job.stage.kind !== "running") return rest;
  const attempts = job.attempts.map((attempt, at): AttemptView => {
    const { launchExtras: notes } = attempt;
    if (at < job.attempts.length - 1 || notes === undefined) return attempt;
    return {
      ...attempt,
      launchExtras: notes.map((note) =>
        note.onGpus === undefined ? note : { ...note, onGpus: facts },
      ),
    };
  });
  return { ...rest, attempts };
}
