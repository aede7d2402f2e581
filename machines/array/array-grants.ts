/**
 * @file The grants that a job array gets: those that are wanted become leases, the others are given back.
 *
 * Grants are noted when they come and taken at the next tick, so a grant and a cancellation of one moment start nothing.
 */

import { clusterOf, type LeaseId } from "../../domain/values/ids.ts";
import { isGrant } from "../job/signals.ts";
import { andThen, forEach, quiet } from "../steps.ts";
import { advanceLease } from "./array-leases.ts";
import { mark } from "./array-marks.ts";
import { noteGrant, tellAside } from "./array-requests.ts";
import {
  changeLease,
  changeRequests,
  liveSlots,
  wantedSlots,
  type ArrayStep,
  type JobArray,
} from "./array-state.ts";
import { holdLease, hostsOf, type HeldLease } from "./held-lease.ts";

/** Notes the grants of a signal; the next tick takes them or gives them back. */
export function noteGrants(array: JobArray, offers: unknown): JobArray {
  if (!Array.isArray(offers) || array.phase.kind !== "open") return array;
  return (offers as readonly unknown[]).filter(isGrant).reduce((before, grant) => {
    const { id, slots = 1 } = grant.lease;
    if (before.seen.has(id)) return before;
    return {
      ...noteGrant(before, grant),
      seen: new Set([...before.seen, id]),
      arrivals: new Map([...before.arrivals, [id, holdLease(grant, slots, before.spec)]]),
    };
  }, array);
}

/** Changes the lease that a signal of the fleet names, be it held or just granted. */
export function changeNamed(
  array: JobArray,
  id: LeaseId,
  change: (held: HeldLease) => HeldLease,
): JobArray {
  const held = array.leases.get(id);
  if (held !== undefined) return changeLease(array, change(held));
  const arrival = array.arrivals.get(id);
  if (arrival === undefined) return array;
  return { ...array, arrivals: new Map([...array.arrivals, [id, change(arrival)]]) };
}

/** Takes the grants that came since the last tick as far as they are wanted, and gives the others back. */
export function takeArrivals(array: JobArray, nowMs: number): ArrayStep {
  const arrivals = [...array.arrivals.values()];
  return forEach({ ...array, arrivals: new Map() }, arrivals, (before: JobArray, arrival) =>
    takeArrival(before, arrival, nowMs),
  );
}

function takeArrival(array: JobArray, arrival: HeldLease, nowMs: number): ArrayStep {
  const slots = Math.min(arrival.slots, array.rule.parallel - liveSlots(array));
  const { grant } = arrival;
  const isLate = grant.seq <= array.requests.endedUpTo;
  if (isLate || slots <= 0 || wantedSlots(array) === 0) return refuse(array, arrival);
  const { grantedAtMs, gpus, id } = grant.lease;
  const isFirst = array.firstGrantAtMs === undefined;
  const taken = changeLease(
    {
      ...array,
      hosts: new Set([...array.hosts, ...hostsOf(grant)]),
      firstGrantAtMs: array.firstGrantAtMs ?? grantedAtMs,
      preemptions: array.preemptions + (arrival.preempt === undefined ? 0 : 1),
    },
    { ...arrival, slots },
  );
  const clusters = [...new Set(gpus.map(({ host }) => clusterOf(host)))];
  const marked = isFirst ? mark(taken, "running", clusters) : quiet(taken);
  return andThen(marked, (before) => advanceLease(before, id, nowMs));
}

/** Gives back a grant that is not needed any more. One that answers a request long over is the last of that request. */
function refuse(array: JobArray, { grant: { lease } }: HeldLease): ArrayStep {
  const { id, seq: answered } = lease;
  const isStale =
    answered < array.requests.seq &&
    [...array.leases.values()].every(({ grant }) => grant.seq > answered);
  const { jobId, runId, requests } = array;
  const endedUpTo = Math.max(requests.endedUpTo, isStale ? answered : 0);
  return tellAside(changeRequests(array, { endedUpTo }), {
    kind: "end",
    jobId,
    runId,
    seq: answered,
    ...(!isStale && { lease: id }),
    unconfirmedHosts: isStale ? [...array.unconfirmedHosts] : [],
  });
}
