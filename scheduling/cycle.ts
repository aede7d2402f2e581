/**
 * @file One scheduling cycle: asks the queue who is next, and for each whether it starts now, and on which GPUs.
 *
 * A request that cannot start although the end of leases would help it may become a *head*: exact GPUs are set apart for it
 * (heads.ts), kept from cycle to cycle, and later ones may use the rest only, or what delays no head. Nobody starves while run times
 * are bounded by T, grants of one tenant do not push back another's for ever (queue-policy.ts), and hosts stay up:
 *   1. The queue brings every request R to the front in bounded time Q. Then R starts, or becomes a head, or waits until one of the
 *      at most H heads starts and leaves it its place, or until its tenant has ended enough leases, whose quota it claims.
 *   2. A head yields to nobody after LAST_YIELD_MS. From then on its GPUs are granted to those alone whose time limits end before the last
 *      of its GPUs is free; that time only ever comes nearer; so it starts at most T later. The first of H heads in a row waits for
 *      no other, the k-th at most for k−1 before it. What is on loan (loans.ts) it gets back G later: a borrower's grace and
 *      the time after which it is revoked, three minutes together at most.
 *   Together: R starts within Q + (H + 1) · (LAST_YIELD_MS + T + G).
 * Requests that no end of a lease would help hold nothing, so they delay nobody.
 * A job array stands in line with one gang, its first missing one. What is left when everybody had a try, set apart for nobody, goes
 * to the arrays that got theirs, in order (array-fill.ts); `apply` then sends what they still want to the end of the line. So an
 * array is never without its turn, and nobody waits behind more than one gang of it at a time.
 * What one request cannot get, none that is alike can get in the same cycle: it is judged once (tries.ts). Where no reasons are asked
 * for, whole kinds of requests are passed over, and the cycle ends when nothing is left that anybody could use.
 * Work is bounded by `limits`; what was not looked at waits for the next cycle, at most `RETRY_MS` away.
 * Cost: O(log n) for the queue of n and O(clusters) to judge each kind, O(hosts) and the placement policy's own a grant.
 */

import { openBrain, type Brain } from "./brain.ts";
import { markOf, returnTo, undoGrant } from "./capacity.ts";
import { callInLoans, grow } from "./cycle-evictions.ts";
import { fillArrays, grantReserved } from "./cycle-grants.ts";
import { keepLatencyReserve, mayRefill, refillLatencyReserve } from "./cycle-latency.ts";
import { isFull, openRun, wakeAt, type CycleOptions, type CycleRun } from "./cycle-run.ts";
import type { PendingReason } from "../domain/pending.ts";
import type { Plan } from "../domain/plan.ts";
import { closeHeads, reserveItems } from "./heads.ts";
import type { Ledger } from "./ledger.ts";
import { nextWindowEndMs } from "./limits.ts";
import { nextRevivalAtMs } from "./links.ts";
import { isDismissing } from "./policies.ts";
import { isStandstill, standOf } from "./standstill.ts";
import { walkLine } from "./turns.ts";
import { nextVictimAtMs } from "./victim-book.ts";

export { RETRY_MS, type CycleOptions } from "./cycle-run.ts";
export { isDismissing, type Backfill, type CycleLimits, type Policies } from "./policies.ts";
export type { DecidePorts } from "./start.ts";

export interface Cycle {
  readonly plan: Plan;
  /** How many stand in line up to `onlyFor`, it included; absent when nobody was asked for. */
  readonly position?: number;
  /** Why `onlyFor` waits; absent when it would start, or was not reached. */
  readonly answer?: PendingReason;
}

/** Passes through the queue in one cycle: another one when GPUs that were set apart became open in the last. */
const MAX_PASSES = 4;

/** On a ledger that is looked at once. */
export function runCycle(snapshot: Ledger, nowMs: number, options: CycleOptions): Cycle {
  const brain = openBrain(snapshot, options.policies.queue, {
    isDismissing: isDismissing(options),
  });
  return runCycleOn(brain, { snapshot, nowMs }, options);
}

/** On a brain that goes on: it is left as it was. */
export function runCycleOn(
  brain: Brain,
  now: { readonly snapshot: Ledger; readonly nowMs: number },
  options: CycleOptions,
): Cycle {
  const { snapshot } = now;
  const { method, onlyFor } = options;
  const isIdle = snapshot.requests.size === 0 && brain.shrunk.size === 0;
  if (isIdle && !mayRefill({ snapshot, options }))
    return { plan: { items: [], pending: [], stats: { method, candidates: 0 } } };
  const before = markOf(brain.capacity);
  const run = openRun(brain, now, options);
  keepLatencyReserve(run);
  grantReserved(run);
  for (let pass = 1; pass <= MAX_PASSES && run.position === undefined; pass += 1) {
    const { opened } = run.heads;
    const stand = standOf(run);
    walkLine(run, pass);
    if (run.heads.opened === opened || isFull(run) || isStandstill(run, stand)) break;
  }
  if (onlyFor === undefined) fillArrays(run);
  callInLoans(run);
  grow(run);
  refillLatencyReserve(run);
  wakeForClocks(run);
  const { position, answer } = run;
  const plan = planOf(run);
  for (const grant of [...run.grants].reverse()) undoGrant(brain.capacity, grant);
  closeHeads(run.heads);
  returnTo(brain.capacity, before);
  return {
    plan,
    ...(position !== undefined && { position }),
    ...(answer !== undefined && { answer }),
  };
}

/** What time alone will change: a lease is protected no more, maintenance is over, the word of an outage is old. */
function wakeForClocks(run: CycleRun): void {
  const { brain, snapshot, nowMs } = run;
  const { index } = brain.capacity;
  if (run.isShortOfVictims) wakeAt(run, nextVictimAtMs(brain.victims, nowMs));
  if (index.hasWindows && snapshot.requests.size > 0)
    wakeAt(run, nextWindowEndMs(index.clusters, nowMs));
  if (snapshot.requests.size > 0) wakeAt(run, nextRevivalAtMs(snapshot, nowMs));
}

function planOf(run: CycleRun): Plan {
  const { items, evict, pending, wakeAtMs, candidates, heads, grants, evictReserve } = run;
  const reserve = [...reserveItems(heads, grants), ...evictReserve];
  return {
    items,
    ...(reserve.length > 0 && { reserve }),
    ...(evict.length > 0 && { evict }),
    pending,
    ...(wakeAtMs < Infinity && { wakeAtMs }),
    stats: { method: run.options.method, candidates },
  };
}
