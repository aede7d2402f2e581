/**
 * @file A fleet file key by key: whatever of it can be read, each entry with its path in the file.
 *
 * A host with a typing error in one key is still checked in all others, and the links to its cluster too: the rules and
 * the named files are held against this draft. Where the schema found nothing wrong the draft is whole.
 */

import { z } from "zod";
import type { ValuePath } from "../values/file-problem.ts";
import { accessSchema, type Access } from "./access-schema.ts";
import { jobNoticesSchema, type JobNoticeRule } from "./job-notices.ts";
import { keepSchema, type WrittenKeep } from "./keep-schema.ts";
import { notifySchema, type NoticeTarget } from "./notify-schema.ts";
import {
  clusterSchema,
  gpuTypeSchema,
  hostSchema,
  linkSchema,
  maintenanceSchema,
  rackSchema,
  siteSchema,
  tenantSchema,
} from "./fleet-schema.ts";
import { policySchema } from "./policy-schema.ts";
import { knownGpuType, type GpuTypeFacts } from "../values/gpu-types.ts";
import { expandHosts, MAX_HOSTS } from "../values/host-range.ts";
import { valueAt, type SchemaProblem } from "../file/schema-problems.ts";

/** What could be read of an entry; a key that is absent was not written, or has a problem of its own. */
export interface Entry<Schema extends z.ZodType> {
  readonly path: ValuePath;
  readonly item: Partial<z.output<Schema>>;
  /** Keys that were written and could not be read. */
  readonly broken: readonly string[];
}

export interface FleetDraft {
  readonly name: string | undefined;
  readonly ownTypes: readonly Entry<typeof gpuTypeSchema>[];
  readonly clusters: readonly DraftCluster[];
  readonly sites: readonly Entry<typeof siteSchema>[];
  /** Undefined where none was written, or what was written cannot be read. */
  readonly policy: z.output<typeof policySchema> | undefined;
  readonly links: readonly Entry<typeof linkSchema>[];
  /** As with `policy`. */
  readonly access: Access | undefined;
  readonly notify: readonly NoticeTarget[] | undefined;
  readonly jobNotices: readonly JobNoticeRule[] | undefined;
  readonly keep: WrittenKeep | undefined;
  readonly tenants: readonly Entry<typeof tenantSchema>[];
}

export interface DraftCluster extends Entry<typeof clusterHead> {
  readonly hosts: readonly DraftHost[];
  readonly racks: readonly Entry<typeof rackSchema>[];
  readonly windows: readonly Entry<typeof maintenanceSchema>[];
}

export interface DraftHost extends Entry<typeof hostSchema> {
  /** The hosts that the entry stands for. */
  readonly names: readonly string[];
  /** Memory and watts of its GPUs: its own, else of its type; what neither says is absent. */
  readonly facts: Partial<GpuTypeFacts>;
}

const clusterHead = clusterSchema.omit({ hosts: true, racks: true, maintenance: true });

/** Reports only what no schema of one entry can see: more hosts than a fleet may have. */
export function draftFleet(file: unknown, problems: SchemaProblem[]): FleetDraft {
  const ownTypes = entriesAt(file, ["gpuTypes"], gpuTypeSchema);
  const context: HostContext = {
    ownTypes: new Map(
      ownTypes.flatMap(({ item }) => (item.name === undefined ? [] : [[item.name, item]])),
    ),
    room: { hosts: MAX_HOSTS },
    problems,
  };
  const name = valueAt(file, ["name"]);
  return {
    name: typeof name === "string" ? name : undefined,
    ownTypes,
    clusters: entriesAt(file, ["clusters"], clusterHead).map((cluster) => ({
      ...cluster,
      hosts: entriesAt(file, [...cluster.path, "hosts"], hostSchema).map((host) =>
        draftHost(host, context),
      ),
      racks: entriesAt(file, [...cluster.path, "racks"], rackSchema),
      windows: entriesAt(file, [...cluster.path, "maintenance"], maintenanceSchema),
    })),
    sites: entriesAt(file, ["sites"], siteSchema),
    policy: policySchema.optional().safeParse(valueAt(file, ["policy"])).data,
    links: entriesAt(file, ["links"], linkSchema),
    access: accessSchema.optional().safeParse(valueAt(file, ["access"])).data,
    notify: notifySchema.optional().safeParse(valueAt(file, ["notify"])).data,
    jobNotices: jobNoticesSchema.optional().safeParse(valueAt(file, ["jobNotices"])).data,
    keep: keepSchema.optional().safeParse(valueAt(file, ["keep"])).data,
    tenants: entriesAt(file, ["tenants"], tenantSchema),
  };
}

interface HostContext {
  readonly ownTypes: ReadonlyMap<string, Entry<typeof gpuTypeSchema>["item"]>;
  /** Hosts that may still be named. */
  readonly room: { hosts: number };
  readonly problems: SchemaProblem[];
}

function draftHost(
  host: Entry<typeof hostSchema>,
  { ownTypes, room, problems }: HostContext,
): DraftHost {
  const { name, type = "", memory, watts } = host.item;
  const expanded = expandHosts(name ?? "");
  const names = expanded.kind === "read" ? expanded.value : [];
  if (room.hosts >= 0 && names.length > room.hosts) {
    const message = `the fleet has more than ${MAX_HOSTS} hosts`;
    const remedy = "make several fleets of them";
    problems.push({ path: [...host.path, "name"], part: "value", value: name, message, remedy });
  }
  room.hosts -= names.length;
  const known = knownGpuType(type);
  const own = ownTypes.get(type);
  const memoryGiB = memory ?? own?.memory ?? known?.memoryGiB;
  const gpuWatts = watts ?? own?.watts ?? known?.watts;
  return {
    ...host,
    // Beyond the limit no list of names is kept: it would be as long as the author pleases.
    names: room.hosts < 0 ? [] : names,
    facts: {
      ...(memoryGiB !== undefined && { memoryGiB }),
      ...(gpuWatts !== undefined && { watts: gpuWatts }),
    },
  };
}

function entriesAt<Shape extends z.ZodRawShape>(
  file: unknown,
  path: ValuePath,
  schema: z.ZodObject<Shape>,
): Entry<z.ZodObject<Shape>>[] {
  const list = valueAt(file, path);
  if (!Array.isArray(list)) return [];
  return list.map((entry: unknown, index) => {
    const read: [string, unknown][] = [];
    const broken: string[] = [];
    for (const [key, inside] of Object.entries(schema.shape)) {
      const value = valueAt(entry, [key]);
      if (value === undefined) continue;
      const result = z.safeParse(inside, value);
      if (result.success) read.push([key, result.data]);
      else broken.push(key);
    }
    // Each value is what the schema of its own key made of it, which no type of `fromEntries` can say.
    const item = Object.fromEntries(read) as Entry<z.ZodObject<Shape>>["item"];
    return { path: [...path, index], item, broken };
  });
}
