/**
 * @file Describes hosts that are closed to one request though others may start there: maintenance, and jobs of its own label.
 *
 * Cost: O(hosts that suit the request), where any are closed.
 */

import type { MaintenanceWindow } from "../../domain/fleet/fleet.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { timeText } from "../../domain/values/wall-time.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { ClusterFit, CycleView } from "../admission/feasibility.ts";
import { forbiddingWindow } from "../ledger/rules/limits.ts";
import { rivalOn } from "../ledger/rules/usage.ts";

/** Hosts of one kind that are named. */
const MAX_NAMED = 3;

export interface ClosedHosts {
  /** A sentence with a space before it. */
  readonly text: string;
  readonly numbers: PendingReason["numbers"];
  /** A clock opens them. */
  readonly isTimed: boolean;
}

/** Undefined where all suitable hosts are open to the request. */
export function closedHosts(
  request: PendingRequest,
  clusterFits: readonly ClusterFit[],
  { capacity: { index, usage }, nowMs }: CycleView,
): ClosedHosts | undefined {
  const resting: { readonly host: HostId; readonly window: MaintenanceWindow }[] = [];
  const rivals: string[] = [];
  for (const host of clusterFits.flatMap(({ type }) => [...type.closed])) {
    const rival = rivalOn(usage, host, request);
    const windows = index.places.get(host)?.windows ?? [];
    const window = forbiddingWindow(request, windows, nowMs);
    if (rival !== undefined) rivals.push(`${host}: ${rival}`);
    else if (window !== undefined) resting.push({ host, window });
  }
  const [first] = resting;
  const parts = [
    ...(first === undefined
      ? []
      : [
          maintenanceText(
            resting.map(({ host }) => host),
            first.window,
          ),
        ]),
    ...(rivals.length === 0
      ? []
      : [
          `${rivals.length} have a job with its label ${request.constraints.antiAffinity ?? ""} (${named(rivals)})`,
        ]),
  ];
  if (parts.length === 0) return undefined;
  const advice =
    first === undefined
      ? ""
      : request.timeLimitMs === undefined
        ? " A timeLimit that ends before the maintenance lets it in."
        : " A shorter timeLimit may let it in before.";
  return {
    text: ` Closed to it: ${parts.join("; ")}.${advice}`,
    numbers: {
      ...(resting.length > 0 && { maintenanceHosts: resting.length }),
      ...(rivals.length > 0 && { sameLabelHosts: rivals.length }),
    },
    isTimed: resting.length > 0,
  };
}

function maintenanceText(
  hosts: readonly HostId[],
  { fromMs, toMs, reason }: MaintenanceWindow,
): string {
  const why = reason === undefined ? "" : `, ${reason}`;
  const when = `${timeText(fromMs)} to ${timeText(toMs)}`;
  return `${hosts.length} for maintenance from ${when}${why} (${named(hosts)})`;
}

const named = (names: readonly string[]): string =>
  [...names.slice(0, MAX_NAMED), ...(names.length > MAX_NAMED ? ["…"] : [])].join(", ");
