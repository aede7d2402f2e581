/**
 * @file Gives a job array what nobody in line can use: as many of its gangs as one host holds, host by host.
 *
 * A gang that some host of the fleet could ever hold is never split over hosts, because the tasks of one host share a lease and its
 * batches. Of the cluster that the placement policy names, the host with the fewest free GPUs that still hold a gang comes first,
 * so that whole hosts stay whole; ties by id. Only unclaimed clusters and unclaimed quota are looked at: claims are of those who wait.
 * Cost of a call: O(hosts of the cluster).
 */

import { byCodeUnit } from "../domain/ids.ts";
import { popCount } from "../domain/lease.ts";
import type { PendingRequest, PlanItem } from "../domain/plan.ts";
import { largestAt, optionsFor, freeHosts, wattsLeft, type Capacity } from "./capacity.ts";
import { judge, misfit, prospectsOf, type Scene, type Start } from "./judge.ts";
import { gpusWithin, WATTS_EPSILON } from "./limits.ts";
import type { PickHost } from "./pick/pick-policy.ts";
import { itemOf, tryStart, type StartContext, type Tried } from "./start.ts";

/** An array's request as that of one gang of it; any other request as it is. */
export function asOneGang(request: PendingRequest, capacity: Capacity): PendingRequest {
  if (request.slots === undefined) return request;
  const { gpus, timeoutMs } = request.gang;
  const whole = { ...request, gang: { gpus, min: gpus, timeoutMs } };
  const onOneHost = { ...whole, constraints: { ...request.constraints, isSameHost: true } };
  const { types } = optionsFor(capacity, onOneHost);
  const largest = Math.max(0, ...types.map((type) => largestAt(capacity, type, "ever")));
  return largest >= gpus ? onOneHost : whole;
}

/** The next item for a request of `asOneGang`: at most so many gangs, all on one host. */
export function fillArray(
  gang: PendingRequest,
  slots: number,
  scene: Scene,
  context: StartContext,
): Tried {
  if (!gang.constraints.isSameHost) return tryStart(gang, scene, context);
  const verdict = judge(gang, scene);
  if (verdict.kind === "wait") return verdict;
  const { won, work } = fillHost(gang, slots, { verdict, scene, context });
  if (won === undefined) {
    const failed = misfit(gang, scene);
    return { ...failed, work: failed.work + work };
  }
  return { kind: "grant", item: itemOf(gang, won, scene, context), work };
}

function fillHost(
  gang: PendingRequest,
  most: number,
  {
    verdict: { demand, offers, types, work: judged },
    scene,
    context: { policies, ports },
  }: { readonly verdict: Start; readonly scene: Scene; readonly context: StartContext },
): { readonly won?: Pick<PlanItem, "gpus" | "slots">; readonly work: number } {
  const { capacity } = scene;
  const { placement, candidates } = policies.placement(demand, offers);
  const work = judged + candidates;
  const type = types.find(({ gpuType }) => gpuType === placement?.gpuType);
  const [part] = placement?.parts ?? [];
  const group = type?.groups.find(({ cluster }) => cluster.id === part?.cluster);
  if (type === undefined || group === undefined) return { work };
  const { gpus: each } = gang.gang;
  const room = prospectsOf(gang, scene).find((prospect) => prospect.type === type)?.room ?? 0;
  const left = wattsLeft(capacity, group.cluster) + WATTS_EPSILON;
  const slotsOn = ({ freeMask, gpuWatts }: PickHost): number =>
    Math.min(
      most,
      Math.floor(Math.min(popCount(freeMask), room, gpusWithin(left, gpuWatts)) / each),
    );
  const hosts = freeHosts(type, group.cluster.id);
  const host = fullest(hosts, slotsOn);
  if (host === undefined) return { work: work + hosts.length };
  const slots = slotsOn(host);
  const wish = { gpus: slots * each, isSameHost: true, wattsLeft: left };
  const picked = policies.pick(wish, [host], ports);
  return {
    ...(picked.gpus !== undefined && { won: { gpus: picked.gpus, slots } }),
    work: work + hosts.length + picked.candidates,
  };
}

/** The host with the fewest free GPUs among those that hold a gang; of equals the one with the lowest id. */
function fullest(
  hosts: readonly PickHost[],
  slotsOn: (host: PickHost) => number,
): PickHost | undefined {
  let best: { readonly host: PickHost; readonly free: number } | undefined;
  for (const host of hosts) {
    const free = popCount(host.freeMask);
    const isBetter =
      best === undefined ||
      free < best.free ||
      (free === best.free && byCodeUnit(host.host, best.host.host) < 0);
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
  const { predictedGBs: _ofOneGang, ...rest } = former;
  items[at] = {
    ...rest,
    slots: (former.slots ?? 0) + (item.slots ?? 0),
    gpus: [{ host: part.host, mask: before.mask | part.mask }],
    reason: item.reason,
  };
}
