/**
 * @file Reads `fleet.yaml` and the files that it names into a `Fleet`, or says all that is wrong with them.
 *
 * Three looks: the schema judges each key, the rules (`fleet-rules.ts`) what lies between the entries, and the named
 * files (`fleet-measured.ts`) whether they fit. The last two look at whatever can be read, so that one wrong key hides no
 * other problem. No I/O: the caller hands over a function that reads files.
 */

import { refuseFile, type RefusedFile } from "./file-problem.ts";
import { draftFleet, type DraftCluster, type DraftHost, type FleetDraft } from "./fleet-draft.ts";
import { readMeasured, type FleetFiles } from "./fleet-measured.ts";
import { fleetRuleProblems, linkDirections } from "./fleet-rules.ts";
import { FLEET_JSON_SCHEMA, fleetSchema } from "./fleet-schema.ts";
import type { ClusterShape, Fleet, HostShape, Link, TenantRule } from "./fleet.ts";
import { clusterId, hostId, tenantId } from "./ids.ts";
import { readLocatedYaml } from "./located-yaml.ts";
import { asFileProblem, schemaProblems, type SchemaProblem } from "./schema-problems.ts";

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
    fleet: { name: draft.name ?? DEFAULT_NAME, shape: shapeOf(draft), details, interHost },
  };
}

/** Of a draft without problems, which is whole: nothing that is required is absent. */
function shapeOf({ clusters, links, tenants }: FleetDraft): Fleet["shape"] {
  return {
    clusters: clusters.flatMap(clusterOf),
    links: links.flatMap(linksOf),
    tenants: tenants.flatMap(tenantOf),
  };
}

function clusterOf({ item, hosts }: DraftCluster): ClusterShape[] {
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
      hosts: hosts.flatMap((host) => hostsOf(name, host)),
      isSimulated: simulated ?? false,
      ...(silence !== undefined && { silenceMs: silence }),
      ...(fence !== undefined && { fenceMs: fence }),
      ...(onSilence !== undefined && { onSilence }),
    },
  ];
}

function hostsOf(cluster: string, { item, names, facts }: DraftHost): HostShape[] {
  const { type, gpus, rack } = item;
  const { memoryGiB, watts } = facts;
  if (type === undefined || gpus === undefined || memoryGiB === undefined || watts === undefined)
    return [];
  return names.map((name) => ({
    id: hostId(cluster, name),
    gpuType: type,
    gpuCount: gpus,
    gpuMemoryGiB: memoryGiB,
    gpuWatts: watts,
    ...(rack !== undefined && { rack }),
  }));
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

function tenantOf({
  item: { name, weight, quota, borrowing },
}: FleetDraft["tenants"][number]): TenantRule[] {
  if (name === undefined) return [];
  return [
    { id: tenantId(name), weight: weight ?? 1, quota: quota ?? {}, borrowingLimit: borrowing ?? 0 },
  ];
}
