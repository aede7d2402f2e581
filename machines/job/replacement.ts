/**
 * @file For how long a job that ends a run because of a lost host wants its other hosts kept (docs/decisions/0123).
 *
 * A host is lost to the run where the fleet has given it up, where its end is the run's cause, or where it has not confirmed that nothing runs there: the
 * ranks on the other hosts often fail before anybody has given it up. The fleet knows itself which hosts are left. Nothing is kept for a run that
 * gives way, that ends the job, or that had one host. A fleet that loses its ledger meanwhile hears from the job which hosts those were
 * (docs/decisions/0169).
 */

import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import { DEFAULT_REPLACE_MS } from "../../domain/job/job.ts";
import { REPLACING_RULES } from "../../protocol/control-contract.ts";
import type { GangEnd } from "../gang/gang-end.ts";
import { afterStart, verdictOn, type RunAccount } from "../gang/retry-verdict.ts";
import type { Job, KeptGpus } from "./job-state.ts";

/** Undefined where nothing is to be kept. */
export function replacementMs(job: Job, end: GangEnd): number | undefined {
  const { rules, spec, grant, reason, isHeld, preempt, givenUp, fenced, avoidHosts } = job;
  if (rules < REPLACING_RULES || spec === undefined || grant === undefined) return undefined;
  if (grant.lease.gpus.length < 2 || end.end === "completed") return undefined;
  if (reason !== undefined || isHeld || preempt !== undefined || givenUp !== undefined)
    return undefined;
  const isHostLost =
    fenced.length > 0 || end.cause?.code === "HOST_LOST" || end.unconfirmedHosts.length > 0;
  const keepMs = spec.replaceMs ?? DEFAULT_REPLACE_MS;
  if (!isHostLost || keepMs === 0) return undefined;
  const verdict = verdictOn(
    { cause: end.cause, account: accountAfter(job, end), avoidHosts },
    spec,
  );
  return verdict.kind === "again" ? keepMs : undefined;
}

/** The GPUs that it expects to be kept: those on hosts that the run has not lost. */
export function keptBeside({ grant, fenced }: Job, end: GangEnd, untilMs: number): KeptGpus {
  const { cause, unconfirmedHosts } = end;
  const lost = new Set([...fenced, ...unconfirmedHosts]);
  if (cause?.code === "HOST_LOST") lost.add(cause.host);
  return { gpus: (grant?.lease.gpus ?? []).filter(({ host }) => !lost.has(host)), untilMs };
}

/** What it says of them to a fleet that has lost its ledger. */
export function keptWords(
  { kept, grant }: Job,
  nowMs: number,
): Pick<Extract<InboxEntry, { kind: "end" }>, "returns" | "keepMs" | "kept"> {
  if (kept === undefined || grant !== undefined || nowMs >= kept.untilMs) return {};
  if (kept.gpus.length === 0) return {};
  return { returns: true, keepMs: Math.ceil(kept.untilMs - nowMs), kept: kept.gpus };
}

/** The account on which the verdict about a run is given. */
export const accountAfter = ({ account }: Job, { startedAtMs }: GangEnd): RunAccount =>
  startedAtMs === undefined ? account : afterStart(account);
