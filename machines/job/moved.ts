/**
 * @file An order to move a job to another fleet: whether the job can follow it, and how it leaves the fleet where it is.
 *
 * A run ends with a checkpoint first. Then the job withdraws and waits, as a job with several fleets does, until its fleet holds nothing of it, and
 * asks the other one with its age. It stays there until the next order, whatever fleets its file names. What would be left behind stays: an
 * array, a replica of a service, a job whose checkpoints lie with its hosts.
 */

import { SERVICE_LABEL } from "../../domain/job/serving-env.ts";
import { isFields } from "../../lib/fields.ts";
import { MOVED_JOB_RULES } from "../../protocol/control-contract.ts";
import { authorIn, type MoveOrder } from "../../protocol/job-orders.ts";
import type { MoveAnswer } from "../../protocol/job.ts";
import { notAllowed, type OrderRefusal } from "./order-refusal.ts";
import { presentFleet } from "./cells.ts";
import { noteGivenUp } from "./durable-orders.ts";
import type { Job } from "./job-state.ts";

/** A name is checked in full where it is written. */
const FLEET = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/** Why the job cannot follow the order now; undefined where it can. */
export function moveProblem(job: Job, order: unknown): OrderRefusal | undefined {
  const read = readMove(order);
  if ("code" in read) return read;
  const { jobId, spec, rules, reason, stage, moving, cells } = job;
  const no = (why: string): OrderRefusal => notAllowed(`job ${jobId} ${why}`);
  if (stage.kind === "over" || reason !== undefined) return no("is being ended");
  if (spec === undefined) return no("is still being read. Try again.");
  if (rules < MOVED_JOB_RULES)
    return no(
      "began under rules that know no moves. Upgrade its fleet (`orbweaver fleet upgrade`) and submit it again, or cancel it and submit it there.",
    );
  if (spec.array !== undefined)
    return no(
      "is an array, which stays in its fleet: one ledger orders its leases. Submit an array there with the tasks that are left.",
    );
  const service = spec.labels?.[SERVICE_LABEL];
  if (service !== undefined)
    return no(
      `is a replica of service ${service}, whose endpoint looks for it in this fleet. Start an endpoint there, and end this one.`,
    );
  if (moving !== undefined) return no(`is already on its way to fleet ${moving.to}`);
  if (read.fleet === presentFleet(cells)) return no(`is at fleet ${read.fleet} already`);
  return job.attempts.length > 0 && hasLocalCheckpoints(job)
    ? no(
        "has run, and its checkpoints lie in folders of its hosts, where the other fleet's cannot read them. Cancel it and submit it there with run.checkpoint.dir, a folder that both share.",
      )
    : undefined;
}

export function moved(job: Job, order: unknown, atMs: number): Job {
  const read = readMove(order);
  if ("code" in read || moveProblem(job, order) !== undefined) return job;
  const { by, fleet: to } = read;
  const moving = { ...job, moving: { to, by, atMs } };
  if (job.grant === undefined) return moving;
  return noteGivenUp(moving, job.givenUp ?? { kind: "move", by, atMs }, atMs);
}

export const moveAnswer = ({ cells, moving, shown }: Job): MoveAnswer => {
  const from = presentFleet(cells);
  return { state: shown, from, to: moving?.to ?? from };
};

/** Checkpoints in the agents' own folders are nowhere else. */
export const hasLocalCheckpoints = ({ spec }: Job): boolean => {
  const rule = spec?.run.checkpoint;
  return rule !== undefined && rule.dir === undefined;
};

function readMove(order: unknown): MoveOrder | OrderRefusal {
  const bad = (message: string): OrderRefusal => ({ code: "BAD_INPUT", message });
  const by = authorIn(order);
  if (!isFields(order) || by === undefined) return bad("the order names no author");
  const { fleet } = order;
  return typeof fleet === "string" && FLEET.test(fleet)
    ? { by, fleet }
    : bad("the order names no fleet");
}
