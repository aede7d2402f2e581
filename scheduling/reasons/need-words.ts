/** @file What a request asks for, in words: `8 GPUs of type H100 with 64 GiB for each GPU on one host`. Cost: O(constraints). */

import { needText } from "../../domain/job/job-resources.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { smallestSize } from "../ledger/rules/grant-check.ts";

export function needOf({ gang, constraints, avoidHosts = [] }: PendingRequest): string {
  const { gpuTypes, gpuMemoryGiB, clusters, hosts, jurisdictions, isSameHost, isSameFabric } =
    constraints;
  const { resources } = constraints;
  const smallest = smallestSize(gang);
  return [
    gang.gpus === 1 ? "1 GPU" : `${gang.gpus} GPUs`,
    ...(smallest < gang.gpus ? [`(${smallest} after ${gang.timeoutMs / 1_000} s)`] : []),
    ...(gpuTypes === undefined ? [] : [`of type ${namesOf(gpuTypes)}`]),
    ...(gpuMemoryGiB === undefined ? [] : [`with ${gpuMemoryGiB} GiB`]),
    ...(resources === undefined ? [] : [`with ${needText({ per: "gpu", ...resources })}`]),
    ...(isSameHost ? ["on one host"] : isSameFabric ? ["on one fabric"] : []),
    ...(clusters === undefined ? [] : [`in ${namesOf(clusters)}`]),
    ...(hosts === undefined ? [] : [`on ${namesOf(hosts)}`]),
    ...(jurisdictions === undefined ? [] : [`under ${namesOf(jurisdictions)}`]),
    ...(avoidHosts.length === 0 ? [] : [`not on ${avoidHosts.length} hosts that refused it`]),
  ].join(" ");
}

const MAX_NAMES = 4;
const MAX_NAME_CHARACTERS = 100;

/** A request may name hundreds, and the fleet keeps and sends what its reason says. */
function namesOf(names: readonly string[]): string {
  const first = names.slice(0, MAX_NAMES).map((name) => name.slice(0, MAX_NAME_CHARACTERS));
  const others = names.length - first.length;
  return [...first, ...(others > 0 ? [`${others} others`] : [])].join(" or ");
}
