/**
 * @file Starts a gang that has lost a host on the GPUs that are kept for it and on others for the rest (docs/decisions/0123).
 *
 * The missing GPUs are looked for as a gang of their own: of the same type, in the clusters of those that are kept. Whatever the
 * placement policy chooses is checked together with the kept ones by the rules of `apply`. A gang that mends itself does not wait for its turn: its kept GPUs
 * stand idle until it starts, and it does so once for each host that it loses. So it may also have what the first request of the queue might take from the
 * reservations of others (access.ts), which is nothing from those that have waited for an hour.
 * Cost: that of `tryStart` for the missing GPUs.
 */

import { gpuCountOf, type HostGpus, type Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { byCodeUnit, type ClusterId } from "../../domain/values/ids.ts";
import { itemOf, tryStart, type Tried } from "../admission/try-start.ts";
import { checkGrant } from "../ledger/rules/grant-check.ts";
import { reservationsOpenTo, takenBy } from "../reservation/access.ts";
import type { ReservationSet } from "../reservation/reservation-set.ts";
import { commit, rollback, withTrial } from "../reservation/trial.ts";
import type { CycleInput } from "./cycle-input.ts";

const MENDED = "beside the GPUs that it has kept since it lost a host";

/** `own`: what is kept for it, all of it free. */
export function tryMended(
  input: CycleInput,
  reservations: ReservationSet,
  { request, own }: { readonly request: PendingRequest; readonly own: Reservation },
): Tried {
  const missingGpus = request.gang.gpus - gpuCountOf(own.gpus);
  if (missingGpus < 0) return inTurn(1);
  const mend = (): Tried => mendNow(input, { request, own, missingGpus });
  const plain = mend();
  if (plain.kind === "grant" || missingGpus === 0) return plain;
  const others = reservationsOpenTo(reservations, request);
  if (others.length === 0) return plain;
  return withTrial<Tried>(reservations, (release) => {
    for (const { jobId } of others) release(jobId);
    const tried = mend();
    const work = plain.work + tried.work;
    if (tried.kind === "wait") return rollback(inTurn(work));
    const { gpus } = tried.item;
    return commit({ ...tried, work }, takenBy(reservations, { request, gpus }));
  });
}

/** On the GPUs that are reserved for no job. */
function mendNow(
  { view, context, snapshot, nowMs }: CycleInput,
  {
    request,
    own,
    missingGpus,
  }: {
    readonly request: PendingRequest;
    readonly own: Reservation;
    readonly missingGpus: number;
  },
): Tried {
  const rest = missingGpus === 0 ? undefined : tryMissing(missingGpus);
  if (rest?.kind === "wait") return rest;
  const gpus = rest === undefined ? own.gpus : joined(own.gpus, rest.item.gpus);
  const work = (rest?.work ?? 0) + 1;
  const { index, usage, reserved } = view.capacity;
  const terms = { index, usage, reserved, hostStatuses: snapshot.hosts, nowMs };
  const won = { gpus, why: MENDED };
  if (checkGrant(request, won, terms) !== undefined) return inTurn(work);
  return { kind: "grant", item: itemOf(request, won, view, context), work };

  function tryMissing(gpus: number): Tried {
    const { places } = view.capacity.index;
    const clusters = new Set<ClusterId>();
    const gpuTypes = new Set<string>();
    for (const { host: id } of own.gpus) {
      const place = places.get(id);
      if (place === undefined) continue;
      clusters.add(place.cluster.id);
      gpuTypes.add(place.host.gpuType);
    }
    const { gang, constraints } = request;
    const part: PendingRequest = {
      ...request,
      gang: { gpus, min: gpus, timeoutMs: gang.timeoutMs },
      constraints: {
        ...constraints,
        clusters: [...clusters].sort(byCodeUnit),
        gpuTypes: [...gpuTypes],
        isSameHost: false,
      },
    };
    return tryStart(part, view, context);
  }
}

const inTurn = (work: number): Tried => ({ kind: "wait", code: "WaitingForReplacement", work });

function joined(a: readonly HostGpus[], b: readonly HostGpus[]): readonly HostGpus[] {
  const masks = new Map(a.map(({ host, mask }) => [host, mask]));
  for (const { host, mask } of b) masks.set(host, (masks.get(host) ?? 0) | mask);
  return [...masks]
    .map(([host, mask]) => ({ host, mask }))
    .sort((one, other) => byCodeUnit(one.host, other.host));
}
