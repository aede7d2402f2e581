/**
 * @file Parses `fleet.yaml` and the files that it names into a `Fleet`, or returns all their problems.
 *
 * Three passes: the schema checks each key, the rules (`fleet-rules.ts`) the relations between entries, and `fleet-measured.ts`
 * the named files. The last two read whatever can be read, so that one wrong key hides no other problem. No I/O: the caller
 * supplies a function that reads files.
 */

import { refuseFile, type RefusedFile } from "../values/file-problem.ts";
import { draftFleet, type DraftCluster, type DraftHost, type FleetDraft } from "./fleet-draft.ts";
import { readMeasured, type FleetFiles } from "./fleet-measured.ts";
import { fleetRuleProblems, linkDirections } from "./fleet-rules.ts";
import { FLEET_JSON_SCHEMA, fleetSchema } from "./fleet-schema.ts";
import { DEFAULT_POLICY } from "./fleet.ts";
import type {
  ClusterShape,
  Fleet,
  FleetPolicy,
  HostShape,
  Link,
  MaintenanceWindow,
  RackRule,
  SiteRule,
  TenantRule,
} from "./fleet.ts";
import { keepRules } from "./keep-schema.ts";
import { clusterId, hostId, tenantId } from "../values/ids.ts";
import { readLocatedYaml } from "../file/located-yaml.ts";
import { asFileProblem, schemaProblems, type SchemaProblem } from "../file/schema-problems.ts";
import { nvlinkDomains, type HostTopology } from "../values/topology.ts";
import { gib } from "../values/units.ts";

export type { FileText, FleetFiles } from "./fleet-measured.ts";
export type { FleetFile, HostEntry } from "./fleet-schema.ts";

export interface ParsedFleet {
  readonly kind: "parsed";
  readonly fleet: Fleet;
}

const DEFAULT_NAME = "default";

export function parseFleetYaml(text: string, files: FleetFiles): ParsedFleet | RefusedFile {
  const { file } = files;
  const yaml = readLocatedYaml(text, file);
  if (!yaml.isSound) return refuseFile(yaml.problems);
  const { value } = yaml;
  const problems: SchemaProblem[] = [];
  const result = fleetSchema.safeParse(value);
  if (!result.success)
    problems.push(...schemaProblems(result.error.issues, { value, schema: FLEET_JSON_SCHEMA }));
  const draft = draftFleet(value, problems);
  problems.push(...fleetRuleProblems(draft));
  const { details, interHost, ...found } = readMeasured(draft, files);
  problems.push(...found.problems);
  const located = problems.map((problem) => asFileProblem(problem, { file, yaml }));
  const all = [...yaml.problems, ...located, ...found.fileProblems];
  if (all.length > 0) return refuseFile(all);
  return {
    kind: "parsed",
    fleet: {
      name: draft.name ?? DEFAULT_NAME,
      shape: shapeOf(draft, details),
      details,
      interHost,
      ...(draft.access !== undefined && { access: draft.access }),
      ...(draft.notify !== undefined && { notify: draft.notify }),
      ...(draft.jobNotices !== undefined && { jobNotices: draft.jobNotices }),
      ...(draft.tenants.some(({ item }) => item.idle !== undefined) && { idle: idleOf(draft) }),
      ...keepOf(draft),
    },
  };
}

/** Of a draft without problems, which is whole: nothing that is required is absent. */
function shapeOf(
  { clusters, sites, policy, links, tenants, jobNotices = [] }: FleetDraft,
  details: Fleet["details"],
): Fleet["shape"] {
  return {
    clusters: clusters.flatMap((cluster) => clusterOf(cluster, details)),
    links: links.flatMap(linksOf),
    tenants: tenants.flatMap(tenantOf),
    ...(sites.length > 0 && { sites: sites.flatMap(({ item }) => ruleOf(item)) }),
    ...(policy !== undefined && { policy: policyOf(policy) }),
    ...(jobNotices.length > 0 && {
      noticeAddresses: jobNotices.map(({ address }) => address),
    }),
  };
}

function clusterOf(cluster: DraftCluster, details: Fleet["details"]): ClusterShape[] {
  const { item, hosts, racks, windows } = cluster;
  const { name, site, jurisdiction, fabric, power, cooling, simulated } = item;
  const { silence, fence, onSilence } = item;
  if (name === undefined || site === undefined || jurisdiction === undefined) return [];
  return [
    {
      id: clusterId(name),
      site,
      jurisdiction,
      ...(fabric !== undefined && { fabricGbps: fabric.bandwidth }),
      ...(power !== undefined && { powerBudgetWatts: power }),
      ...(cooling !== undefined && { coolingBudgetWatts: cooling }),
      hosts: hosts.flatMap((host) => hostsOf(name, host, details)),
      isSimulated: simulated ?? false,
      ...(silence !== undefined && { silenceMs: silence }),
      ...(fence !== undefined && { fenceMs: fence }),
      ...(onSilence !== undefined && { onSilence }),
      ...(racks.length > 0 && { racks: racks.flatMap((rack) => ruleOf(rack.item)) }),
      ...(windows.length > 0 && {
        maintenance: windows.flatMap((window) => windowOf(name, window.item)),
      }),
    },
  ];
}

/** Of a site or of a rack. */
function ruleOf({
  name,
  power,
  cooling,
}: FleetDraft["sites"][number]["item"]): (SiteRule & RackRule)[] {
  if (name === undefined) return [];
  return [
    {
      id: name,
      ...(power !== undefined && { powerBudgetWatts: power }),
      ...(cooling !== undefined && { coolingBudgetWatts: cooling }),
    },
  ];
}

function windowOf(
  cluster: string,
  { hosts, from, to, reason }: DraftCluster["windows"][number]["item"],
): MaintenanceWindow[] {
  if (from === undefined || to === undefined) return [];
  return [
    {
      ...(hosts !== undefined && { hosts: hosts.flat().map((name) => hostId(cluster, name)) }),
      fromMs: from,
      toMs: to,
      ...(reason !== undefined && { reason }),
    },
  ];
}

function policyOf({
  weights = {},
  aging,
  preemption = {},
  reserve,
  places,
  placement,
}: NonNullable<FleetDraft["policy"]>): FleetPolicy {
  const { classWeights } = DEFAULT_POLICY;
  return {
    classWeights: {
      inference: weights.inference ?? classWeights.inference,
      interactive: weights.interactive ?? classWeights.interactive,
      training: weights.training ?? classWeights.training,
    },
    agingMs: aging ?? DEFAULT_POLICY.agingMs,
    isPreempting: preemption.enabled ?? DEFAULT_POLICY.isPreempting,
    preemptionBudgetGpuSeconds: preemption.budget ?? DEFAULT_POLICY.preemptionBudgetGpuSeconds,
    ...(preemption.perJob !== undefined && { maxPreemptions: preemption.perJob }),
    ...(preemption.coolDown !== undefined && { coolDownMs: preemption.coolDown }),
    maxReserveShare: reserve ?? DEFAULT_POLICY.maxReserveShare,
    ...(places !== undefined && { places }),
    ...(placement !== undefined && { placement }),
  };
}

function hostsOf(
  cluster: string,
  { item, names, facts }: DraftHost,
  details: Fleet["details"],
): HostShape[] {
  const { type, gpus, rack, cpus, hostMemory, weights, devices } = item;
  const { memoryGiB, watts } = facts;
  if (type === undefined || gpus === undefined || memoryGiB === undefined || watts === undefined)
    return [];
  return names.map((name) => {
    const id = hostId(cluster, name);
    const topology = details.get(id)?.topology;
    return {
      id,
      gpuType: type,
      gpuCount: gpus,
      gpuMemoryGiB: memoryGiB,
      gpuWatts: watts,
      ...(cpus !== undefined && { cpus }),
      ...(hostMemory !== undefined && { hostMemoryGiB: gib(hostMemory - (weights ?? 0)) }),
      ...(weights !== undefined && { weightsGiB: weights }),
      ...(rack !== undefined && { rack }),
      ...(devices !== undefined && { devices }),
      ...(topology !== undefined && domainsOf(topology)),
    };
  });
}

/** The parts of a topology that placement needs; NUMA nodes where those of all GPUs are known. */
function domainsOf(topology: HostTopology): Pick<HostShape, "nvlinkDomains" | "numaNodes"> {
  const masks = (sets: readonly (readonly number[])[]): readonly number[] =>
    sets.map((gpus) => gpus.reduce((mask, gpu) => mask | (1 << gpu), 0));
  const byNode = new Map<number, number[]>();
  for (const [gpu, { numaNode }] of topology.gpus.entries()) {
    if (numaNode === undefined) return { nvlinkDomains: masks(nvlinkDomains(topology)) };
    byNode.set(numaNode, [...(byNode.get(numaNode) ?? []), gpu]);
  }
  return {
    nvlinkDomains: masks(nvlinkDomains(topology)),
    numaNodes: masks([...byNode.values()]),
  };
}

/** A link `between` two clusters is one each way. */
function linksOf({ item }: FleetDraft["links"][number]): Link[] {
  const { bandwidth, latency, price } = item;
  if (bandwidth === undefined || latency === undefined) return [];
  return linkDirections(item).map(({ from, to }) => ({
    from: clusterId(from),
    to: clusterId(to),
    bandwidthGbps: bandwidth,
    latencyMs: latency,
    ...(price !== undefined && { usdPerGB: price }),
  }));
}

function idleOf({ tenants }: FleetDraft): NonNullable<Fleet["idle"]> {
  return new Map(
    tenants.flatMap(({ item: { name, idle } }) =>
      name === undefined || idle === undefined
        ? []
        : [[tenantId(name), { afterMs: idle.after, act: idle.then ?? "warn" }] as const],
    ),
  );
}

function keepOf({ keep, tenants }: FleetDraft): Pick<Fleet, "keep"> {
  const entries = tenants.map(({ item }) => item);
  const isStated = keep !== undefined || entries.some((entry) => entry.keep !== undefined);
  return isStated ? { keep: keepRules(keep, entries) } : {};
}

function tenantOf({
  item: { name, weight, quota, borrowing },
}: FleetDraft["tenants"][number]): TenantRule[] {
  if (name === undefined) return [];
  return [
    { id: tenantId(name), weight: weight ?? 1, quota: quota ?? {}, borrowingLimit: borrowing ?? 0 },
  ];
}
