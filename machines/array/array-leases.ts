/**
 * @file The life of a lease of a job array: batches one after the other, then its return to the fleet.
 *
 * A lease runs one batch at a time, as a gang (`machines/gang/`), and takes the next one as soon as that is over. It is given back when no task
 * waits for it, when it is wanted for others, when a host of it refused or was lost, or when it is old and others wait.
 * Cost: O(leases + tasks of the batch) for each batch.
 */

import type { LeaseId } from "../../domain/values/ids.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { gangDueAtMs, stepGang } from "../gang/gang.ts";
import type { GangEvent } from "../gang/gang-state.ts";
import { stopReasonOf } from "../job/paused.ts";
import type { Tick } from "../machine.ts";
import { andThen, forEach, quiet } from "../steps.ts";
import { tellAside } from "./array-requests.ts";
import { enterWork, nextId, ofGang, type ArrayStep, type JobArray } from "./array-state.ts";
import type { HeldLease } from "./held-lease.ts";
import { begin, settle } from "./lease-batches.ts";

/** A lease that is older is given back between two batches if others wait: they are served first, then the array again. */
const LEASE_TERM_MS = 60_000;

/** Brings a lease as far as it gets without another event. */
export function advanceLease(array: JobArray, id: LeaseId, nowMs: number): ArrayStep {
  const held = array.leases.get(id);
  if (held === undefined) return quiet(array);
  const step = pass(array, held, nowMs);
  const next = step.state.leases.get(id);
  if (next === undefined || next.work === held.work) return step;
  return andThen(step, (before) => advanceLease(before, id, nowMs));
}

function pass(array: JobArray, held: HeldLease, nowMs: number): ArrayStep {
  const { work } = held;
  switch (work.kind) {
    case "ready":
      return ready(array, held, nowMs);
    case "running":
      return work.gang.end === undefined
        ? tellGang(array, held, nowMs)
        : quiet(settle(array, held, { ...work, end: work.gang.end, nowMs }));
    case "asking":
      return quiet(array);
    case "over":
      return giveBack(array, held);
  }
}

/** A lease that is wanted takes its next batch; an old one first asks whether others wait for its GPUs. */
function ready(array: JobArray, held: HeldLease, nowMs: number): ArrayStep {
  const { grant, batchSeq, work, fenced, preempt, givenUp } = held;
  const isWanted =
    array.reason === undefined &&
    !array.isHeld &&
    fenced.length === 0 &&
    preempt === undefined &&
    givenUp === undefined;
  if (!isWanted) return quiet(enterWork(array, held, { kind: "over" }));
  const isOld = batchSeq > 0 && nowMs - grant.lease.grantedAtMs > LEASE_TERM_MS;
  const hasAsked = work.kind === "ready" && work.hasAsked === true;
  return isOld && !hasAsked ? askOthers(array, held) : begin(array, held, nowMs);
}

/** Tells a running gang of its lease's lost hosts and of the reasons to stop, each once; and of the time, where it waits for it. */
function tellGang(array: JobArray, held: HeldLease, nowMs: number): ArrayStep {
  if (held.work.kind !== "running") return quiet(array);
  const { gang } = held.work;
  const { isKilled } = array;
  const { preempt, fenced, givenUp } = held;
  const reason = array.reason ?? stopReasonOf(givenUp);
  const isLost = fenced.some((host) => !gang.fenced.has(host));
  const news: readonly (GangEvent | Tick)[] = [
    ...(reason !== undefined && gang.reason === undefined
      ? [{ kind: "stop", reason } as const]
      : []),
    ...(preempt !== undefined && gang.preempt === undefined
      ? [{ kind: "preempt", order: preempt } as const]
      : []),
    ...(isKilled === true && gang.isKilled !== true ? [{ kind: "kill" } as const] : []),
    ...(isLost ? [{ kind: "fenced", hosts: fenced } as const] : []),
    ...(gangDueAtMs(gang) <= nowMs ? [{ kind: "tick" } as const] : []),
  ];
  return forEach(array, news, (before, event) =>
    toGang(before, { lease: held.grant.lease.id, event }, nowMs),
  );
}

/** Feeds the gang that runs on the lease; nothing runs there where the news is late. */
export function toGang(
  array: JobArray,
  { lease, event }: { readonly lease: LeaseId; readonly event: GangEvent | Tick },
  nowMs: number,
): ArrayStep {
  const held = array.leases.get(lease);
  if (held?.work.kind !== "running") return quiet(array);
  const { state: gang, commands } = stepGang(held.work.gang, event, nowMs);
  return {
    state: gang === held.work.gang ? array : enterWork(array, held, { ...held.work, gang }),
    commands: ofGang(held, commands),
  };
}

function askOthers(before: JobArray, held: HeldLease): ArrayStep {
  const { id, array } = nextId(before);
  const { jobId, fleet } = array;
  return {
    state: enterWork(array, held, { kind: "asking", id }),
    commands: [{ kind: "ask-others", id, fleetWorkflowId: fleetWorkflowId(fleet), jobId }],
  };
}

/** The fleet has answered whether others wait for the GPUs of an old lease. */
export function othersAnswered(array: JobArray, id: number, doWait: boolean): JobArray {
  const held = [...array.leases.values()].find(
    ({ work }) => work.kind === "asking" && work.id === id,
  );
  return held === undefined
    ? array
    : enterWork(array, held, doWait ? { kind: "over" } : { kind: "ready", hasAsked: true });
}

/** An assertion that comes after the return would claim the lease again, so the return waits for it. */
function giveBack(array: JobArray, { grant, unconfirmedHosts }: HeldLease): ArrayStep {
  const { id, seq } = grant.lease;
  const { doing } = array.requests;
  if (doing.kind === "asserting" && doing.lease === id) return quiet(array);
  const leases = new Map(array.leases);
  leases.delete(id);
  const { jobId, runId } = array;
  return tellAside(
    {
      ...array,
      leases,
      unconfirmedHosts: new Set([...array.unconfirmedHosts, ...unconfirmedHosts]),
    },
    { kind: "end", jobId, runId, seq, lease: id, unconfirmedHosts },
  );
}
