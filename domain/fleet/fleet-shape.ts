/**
 * @file Checks that a value is a fleet's shape: the guard of the fleet workflow, which a bad description must never reach.
 *
 * `fleet-file.ts` checks users' files, with places and remedies; this check is for messages. Hand-written, because it runs
 * inside the workflow. Returns the first problem.
 */

import { JOB_CLASSES } from "../job/job.ts";
import { FLEET_PLACEMENTS } from "./fleet.ts";

/** The problem; undefined when the value is a `FleetShape`. */
export function fleetShapeProblem(value: unknown): string | undefined {
  if (!isRecord(value)) return "the shape is not an object";
  const { clusters, links, tenants } = value;
  if (!Array.isArray(clusters) || !Array.isArray(links) || !Array.isArray(tenants)) {
    return "the shape needs the lists clusters, links and tenants";
  }
  const seen = new Set<string>();
  for (const cluster of clusters as unknown[]) {
    if (!isRecord(cluster) || !isName(cluster["id"]) || !Array.isArray(cluster["hosts"]))
      return "a cluster needs id and hosts";
    for (const key of ["silenceMs", "fenceMs"]) {
      if (cluster[key] !== undefined && !isAmount(cluster[key]))
        return `${key} of cluster ${cluster["id"]} is no time`;
    }
    const limits =
      budgetProblem(`cluster ${cluster["id"]}`, [cluster]) ??
      budgetProblem(`a rack of cluster ${cluster["id"]}`, cluster["racks"]) ??
      windowProblem(cluster["id"], cluster["maintenance"]);
    if (limits !== undefined) return limits;
    for (const host of cluster["hosts"] as unknown[]) {
      const problem = hostProblem(host, cluster["id"]);
      if (problem !== undefined) return problem;
      const { id } = host as { readonly id: string };
      if (seen.has(id)) return `host ${id} is there twice`;
      seen.add(id);
    }
  }
  for (const tenant of tenants as unknown[]) {
    if (
      !isRecord(tenant) ||
      !isName(tenant["id"]) ||
      !isRecord(tenant["quota"]) ||
      !isCount(tenant["borrowingLimit"])
    ) {
      return "a tenant needs id, quota and borrowingLimit";
    }
    if (tenant["weight"] !== undefined && !(isAmount(tenant["weight"]) && tenant["weight"] > 0))
      return `the weight of tenant ${tenant["id"]} is not above 0`;
    if (!Object.values(tenant["quota"]).every(isCount))
      return `a quota of tenant ${tenant["id"]} is no count`;
  }
  return (
    budgetProblem("a site", value["sites"]) ??
    policyProblem(value["policy"]) ??
    addressesProblem(value["noticeAddresses"])
  );
}

/** Of clusters, sites or racks; that there are none is all right. */
function budgetProblem(what: string, entries: unknown): string | undefined {
  if (entries === undefined) return undefined;
  if (!Array.isArray(entries)) return `${what} is in no list`;
  for (const entry of entries as unknown[]) {
    if (!isRecord(entry) || !isName(entry["id"])) return `${what} has no id`;
    for (const key of ["powerBudgetWatts", "coolingBudgetWatts"]) {
      if (entry[key] !== undefined && !isAmount(entry[key])) return `${key} of ${what} is no power`;
    }
  }
  return undefined;
}

function windowProblem(cluster: string, windows: unknown): string | undefined {
  if (windows === undefined) return undefined;
  if (!Array.isArray(windows)) return `the maintenance of cluster ${cluster} is no list`;
  const isSound = (windows as unknown[]).every(
    (window) =>
      isRecord(window) &&
      isAmount(window["fromMs"]) &&
      isAmount(window["toMs"]) &&
      (window["hosts"] === undefined ||
        (Array.isArray(window["hosts"]) && window["hosts"].every(isName))) &&
      (window["reason"] === undefined || typeof window["reason"] === "string"),
  );
  return isSound ? undefined : `a maintenance of cluster ${cluster} has no times or no hosts`;
}

function policyProblem(policy: unknown): string | undefined {
  if (policy === undefined) return undefined;
  if (!isRecord(policy) || !isRecord(policy["classWeights"])) return "the policy has no weights";
  const { classWeights, agingMs, preemptionBudgetGpuSeconds, maxReserveShare, places, placement } =
    policy;
  const { maxPreemptions, coolDownMs } = policy;
  const weights = JOB_CLASSES.map((each) => classWeights[each]);
  if (![...weights, agingMs].every((amount) => isAmount(amount) && amount > 0))
    return "a weight of the policy, or its agingMs, is not above 0";
  if (!isAmount(preemptionBudgetGpuSeconds) || !isAmount(maxReserveShare) || maxReserveShare > 1)
    return "the policy's budget or reserve is no amount";
  if (maxPreemptions !== undefined && !isCount(maxPreemptions))
    return "the policy's limit of preemptions is no count";
  if (coolDownMs !== undefined && !isAmount(coolDownMs))
    return "the policy's coolDownMs is no time";
  if (places !== undefined && !isCount(places)) return "the policy's places are no count";
  if (placement !== undefined && !FLEET_PLACEMENTS.some((name) => name === placement))
    return "the policy's placement is not known";
  return typeof policy["isPreempting"] === "boolean" ? undefined : "the policy lacks isPreempting";
}

function addressesProblem(addresses: unknown): string | undefined {
  if (addresses === undefined || (Array.isArray(addresses) && addresses.every(isName)))
    return undefined;
  return "the addresses of notices are no list of names";
}

function hostProblem(host: unknown, cluster: string): string | undefined {
  if (!isRecord(host) || !isName(host["id"])) return `a host of ${cluster} has no id`;
  const { id, gpuType, gpuCount, gpuMemoryGiB, gpuWatts } = host;
  if (!id.startsWith(`${cluster}/`)) return `host ${id} is not named ${cluster}/…`;
  if (!isName(gpuType)) return `host ${id} has no GPU type`;
  if (!isCount(gpuCount) || gpuCount < 1 || gpuCount > 30)
    return `host ${id} has ${String(gpuCount)} GPUs; 1 to 30 are possible`;
  if (!isAmount(gpuMemoryGiB) || !isAmount(gpuWatts))
    return `host ${id} needs gpuMemoryGiB and gpuWatts`;
  for (const key of ["cpus", "hostMemoryGiB", "weightsGiB"]) {
    if (host[key] !== undefined && !isAmount(host[key])) return `${key} of host ${id} is no amount`;
  }
  if (host["devices"] !== undefined && host["devices"] !== "cpu")
    return `the devices of host ${id} are not known`;
  for (const key of ["nvlinkDomains", "numaNodes"]) {
    const masks = host[key];
    if (masks !== undefined && !(Array.isArray(masks) && masks.every(isCount)))
      return `${key} of host ${id} are no masks`;
  }
  return undefined;
}

const isRecord = (
  value: unknown,
): value is Readonly<Record<string, unknown>> & { readonly id: string } =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isName = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && !/\s/.test(value);
const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
const isAmount = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value) && value >= 0;
