/**
 * @file Whether a value that claims to be a fleet's shape is one: the guard of the fleet workflow, which a bad description must never reach.
 *
 * People's files are judged by `fleet-file.ts`, with places and remedies; this is for what comes over the wire. Hand-written, because it
 * runs inside the workflow. Says the first thing that is wrong.
 */

/** What is wrong; undefined when the value is a `FleetShape`. */
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
    if (!Object.values(tenant["quota"]).every(isCount))
      return `a quota of tenant ${tenant["id"]} is no count`;
  }
  return undefined;
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
