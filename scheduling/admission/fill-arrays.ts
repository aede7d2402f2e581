/**
 * @file Gives a job array GPUs that no request in the queue can use: as many of its gangs as one host holds, host by host.
 *
 * A gang that some host of the fleet could ever hold is never split over hosts, because the tasks of one host share a lease and its
 * batches. Of the cluster in which the placement policy puts a gang, the host with the fewest free GPUs that still hold one comes
 * first, so that whole hosts stay whole; ties by id. GPUs that are reserved and quota that is claimed are left alone.
 * Cost of a call: O(hosts of the cluster) and that of the policy.
 */

import { byCodeUnit } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { PendingRequest, PlanItem } from "../../domain/lease/plan.ts";
import { hostsOf, largestAt, optionsFor, wattsLeft } from "../capacity/capacity.ts";
import type { PoolHost } from "../capacity/host-pools.ts";
import { checkFeasibility, misfit, type CycleView, type Start } from "./feasibility.ts";
import { gpusWithin, WATTS_EPSILON } from "../ledger/rules/limits.ts";
import {
  asFree,
  demandOf,
  freeHosts,
  itemOf,
  tryStart,
  type StartContext,
  type Tried,
} from "./try-start.ts";

/** An array's request as that of one gang of it; any other request as it is. */
export function asOneGang(request: PendingRequest, { capacity, nowMs }: CycleView): PendingRequest {
  if (request.slots === undefined) return request;
  const known = capacity.gangs.get(request);
  if (known !== undefined) return known;
  const { gpus, timeoutMs } = request.gang;
  const whole = { ...request, gang: { gpus, min: gpus, timeoutMs } };
  const onOneHost = { ...whole, constraints: { ...request.constraints, isSameHost: true } };
  const { types } = optionsFor(capacity, onOneHost, nowMs);
  const largest = Math.max(0, ...types.map((type) => largestAt(capacity, type, "ever")));
  const gang = largest >= gpus ? onOneHost : whole;
  capacity.gangs.set(request, gang);
  return gang;
}

/** The next item for a request of `asOneGang`: at most so many gangs, all on one host. */
export function fillArray(
  gang: PendingRequest,
  slots: number,
  { view, context }: { readonly view: CycleView; readonly context: StartContext },
): Tried {
  if (!gang.constraints.isSameHost) return tryStart(gang, view, context);
  const fit = checkFeasibility(gang, view);
  if (fit.kind === "wait") return fit;
  const { won, work } = fillHost(gang, slots, { start: fit, view, context });
  if (won === undefined) return misfit(work);
  return { kind: "grant", item: itemOf(gang, won, view, context), work };
}

type Won = Pick<PlanItem, "gpus" | "slots"> & { readonly why: string };

function fillHost(
  gang: PendingRequest,
  most: number,
  {
    start,
    view,
    context: { place },
  }: { readonly start: Start; readonly view: CycleView; readonly context: StartContext },
): { readonly won?: Won; readonly work: number } {
  const { capacity } = view;
  const { gpus: each } = gang.gang;
  const one = place(demandOf(gang, each, view), freeHosts(start.clusterFits, capacity), capacity);
  const work = start.work + one.candidates;
  const [part] = one.gpus ?? [];
  const first = part && capacity.hosts.get(part.host);
  const fit = start.clusterFits.find(({ type }) => type.gpuType === first?.pool.gpuType);
  if (first === undefined || fit === undefined) return { work };
  const { cluster } = first.pool;
  const left = wattsLeft(capacity, cluster) + WATTS_EPSILON;
  const slotsOn = (host: PoolHost): number => {
    const { freeMask } = asFree(host, fit.type.need, capacity);
    const powered = gpusWithin(left, host.pool.gpuWatts);
    return Math.min(most, Math.floor(Math.min(popCount(freeMask), fit.room, powered) / each));
  };
  const host = fullest(hostsOf(fit.type, cluster.id), slotsOn);
  if (host === undefined) return { work };
  const slots = slotsOn(host);
  const free = asFree(host, fit.type.need, capacity);
  const { gpus, candidates } = place(demandOf(gang, slots * each, view), [free], capacity);
  return {
    ...(gpus !== undefined && {
      won: { gpus, slots, why: "no request in the queue can use them" },
    }),
    work: work + candidates,
  };
}

/** The host with the fewest free GPUs among those that hold a gang; of equals the one with the lowest id. */
function fullest(
  hosts: Iterable<PoolHost>,
  slotsOn: (host: PoolHost) => number,
): PoolHost | undefined {
  let best: { readonly host: PoolHost; readonly free: number } | undefined;
  for (const host of hosts) {
    const free = popCount(host.freeMask);
    const isBetter =
      best === undefined ||
      free < best.free ||
      (free === best.free && byCodeUnit(host.id, best.host.id) < 0);
    if (isBetter && slotsOn(host) > 0) best = { host, free };
  }
  return best?.host;
}

/** Adds an item to a plan; what an array gets on one host in one plan is one item. */
export function joinItem(items: PlanItem[], item: PlanItem): void {
  const [part, ...others] = item.gpus;
  const at =
    item.slots === undefined || part === undefined || others.length > 0
      ? -1
      : items.findIndex(
          ({ request, gpus, slots }) =>
            request.jobId === item.request.jobId &&
            slots !== undefined &&
            gpus.length === 1 &&
            gpus[0]?.host === part.host,
        );
  const former = items[at];
  const [before] = former?.gpus ?? [];
  if (former === undefined || before === undefined || part === undefined) {
    items.push(item);
    return;
  }
  const { predictedGBs: _ofOneGang, bandwidth: _ofOneGangToo, ...rest } = former;
  items[at] = {
    ...rest,
    slots: (former.slots ?? 0) + (item.slots ?? 0),
    gpus: [{ host: part.host, mask: before.mask | part.mask }],
    reason: item.reason,
  };
}
