/**
 * @file A fleet file item by item: whatever of it can be read, each item with its path in the file.
 *
 * A fleet with a typing error in one host still gets its links and budgets checked: the rules look at this draft. Where
 * the schema found nothing wrong the draft is whole.
 */

import type { ValuePath } from "./file-problem.ts";
import {
  clusterSchema,
  gpuTypeSchema,
  hostSchema,
  linkSchema,
  tenantSchema,
} from "./fleet-schema.ts";
import type { ReadCluster, ReadHost, ReadLink, ReadTenant } from "./fleet-schema.ts";
import { knownGpuType, gpuTypeName, type GpuTypeFacts } from "./gpu-types.ts";
import { expandHosts, MAX_HOSTS } from "./host-range.ts";
import { valueAt, type SchemaProblem } from "./schema-problems.ts";

export interface Placed<Item> {
  readonly path: ValuePath;
  readonly item: Item;
}

export interface FleetDraft {
  readonly name: string | undefined;
  /** Own types; absent facts mean that the entry has a problem of its own. */
  readonly ownTypes: readonly Placed<{ readonly name: string; readonly facts?: GpuTypeFacts }>[];
  readonly clusters: readonly DraftCluster[];
  /** Types of all hosts, those of hosts with problems included: quotas may name them. */
  readonly typeNames: readonly string[];
  readonly links: readonly Placed<ReadLink>[];
  readonly tenants: readonly Placed<ReadTenant>[];
}

export interface DraftCluster {
  readonly path: ValuePath;
  /** As written, even when it is no good name: links may refer to it. */
  readonly name: string | undefined;
  /** All but its hosts; absent when a key of it has a problem. */
  readonly item: ReadCluster | undefined;
  readonly hosts: readonly DraftHost[];
}

export interface DraftHost extends Placed<ReadHost> {
  /** The hosts that the entry stands for. */
  readonly names: readonly string[];
  /** Memory and watts of its GPUs: its own, else of its type; what neither says is absent. */
  readonly facts: Partial<GpuTypeFacts>;
}

const clusterHeadSchema = clusterSchema.omit({ hosts: true });

/** Reports only what the schema cannot see: more hosts than a fleet may have. */
export function draftFleet(file: unknown, problems: SchemaProblem[]): FleetDraft {
  const ownTypes = listAt(file, ["gpuTypes"]).flatMap(({ path, item }): FleetDraft["ownTypes"] => {
    const read = gpuTypeSchema.safeParse(item);
    if (read.success) {
      const { name, memory, watts } = read.data;
      return [{ path, item: { name, facts: { memoryGiB: memory, watts } } }];
    }
    const name = valueAt(item, ["name"]);
    return typeof name === "string" ? [{ path, item: { name: gpuTypeName(name) } }] : [];
  });
  const factsByType = new Map(ownTypes.map(({ item }) => [item.name, item.facts]));
  const factsOf = (type: string): GpuTypeFacts | undefined =>
    factsByType.get(type) ?? knownGpuType(type);
  const room = { hosts: MAX_HOSTS };
  const clusters = listAt(file, ["clusters"]).map(({ path, item }) => {
    const name = valueAt(item, ["name"]);
    const head = clusterHeadSchema.safeParse(withoutHosts(item));
    const hosts = listAt(file, [...path, "hosts"]).flatMap((each) =>
      draftHost(each, { factsOf, room, problems }),
    );
    return {
      path,
      name: typeof name === "string" ? name : undefined,
      item: head.success ? head.data : undefined,
      hosts,
    };
  });
  const typeNames = listAt(file, ["clusters"])
    .flatMap(({ path }) => listAt(file, [...path, "hosts"]))
    .map(({ item }) => valueAt(item, ["type"]))
    .flatMap((type) => (typeof type === "string" ? gpuTypeName(type) : []));
  const name = valueAt(file, ["name"]);
  return {
    name: typeof name === "string" ? name : undefined,
    ownTypes,
    clusters,
    typeNames: [...new Set(typeNames)],
    links: listAt(file, ["links"]).flatMap(readWith((item) => linkSchema.safeParse(item))),
    tenants: listAt(file, ["tenants"]).flatMap(readWith((item) => tenantSchema.safeParse(item))),
  };
}

interface HostContext {
  readonly factsOf: (type: string) => GpuTypeFacts | undefined;
  /** Hosts that may still be named. */
  readonly room: { hosts: number };
  readonly problems: SchemaProblem[];
}

function draftHost(
  { path, item }: Placed<unknown>,
  { factsOf, room, problems }: HostContext,
): DraftHost[] {
  const read = hostSchema.safeParse(item);
  if (!read.success) return [];
  const host = read.data;
  const expanded = expandHosts(host.name);
  const names = expanded.kind === "read" ? expanded.value : [];
  if (room.hosts >= 0 && names.length > room.hosts) {
    const message = `the fleet has more than ${MAX_HOSTS} hosts`;
    const remedy = "make several fleets of them";
    problems.push({ path: [...path, "name"], part: "value", value: host.name, message, remedy });
  }
  room.hosts -= names.length;
  const ofType = factsOf(host.type);
  const memoryGiB = host.memory ?? ofType?.memoryGiB;
  const watts = host.watts ?? ofType?.watts;
  const facts = {
    ...(memoryGiB !== undefined && { memoryGiB }),
    ...(watts !== undefined && { watts }),
  };
  // Beyond the limit no list of names is kept: it would be as large as the author pleases.
  return [{ path, item: host, names: room.hosts < 0 ? [] : names, facts }];
}

type Read<Item> = { readonly success: true; readonly data: Item } | { readonly success: false };

const readWith =
  <Item>(read: (item: unknown) => Read<Item>) =>
  ({ path, item }: Placed<unknown>): Placed<Item>[] => {
    const result = read(item);
    return result.success ? [{ path, item: result.data }] : [];
  };

function listAt(file: unknown, path: ValuePath): Placed<unknown>[] {
  const list = valueAt(file, path);
  return Array.isArray(list)
    ? list.map((item: unknown, index) => ({ path: [...path, index], item }))
    : [];
}

function withoutHosts(cluster: unknown): unknown {
  if (typeof cluster !== "object" || cluster === null || Array.isArray(cluster)) return cluster;
  return Object.fromEntries(Object.entries(cluster).filter(([key]) => key !== "hosts"));
}
