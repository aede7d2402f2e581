/**
 * @file The rules between the entries of a fleet file: names that are unique and names that exist, types that are known,
 * budgets that power each GPU, links that have two ends.
 */

import type { z } from "zod";
import { powerText } from "./dimensions.ts";
import { pathText, shown, type ValuePath } from "./file-problem.ts";
import type { DraftCluster, DraftHost, Entry, FleetDraft } from "./fleet-draft.ts";
import type { linkSchema } from "./fleet-schema.ts";
import { DEFAULT_FENCE_MS, DEFAULT_SILENCE_MS } from "./fleet.ts";
import { nearestGpuType } from "./gpu-types.ts";
import { nearestName } from "./nearest-name.ts";
import type { SchemaProblem } from "./schema-problems.ts";

const MIN_SILENCE_MS = 1_000;

export function fleetRuleProblems(draft: FleetDraft): SchemaProblem[] {
  const broken = [
    ...sameNames("GPU type", draft.ownTypes),
    ...sameNames("cluster", draft.clusters),
    ...sameNames("tenant", draft.tenants),
    ...draft.clusters.flatMap(sameHosts),
    ...unknownTypes(draft),
    ...draft.clusters.flatMap(smallBudgets),
    ...draft.clusters.flatMap(shortSilences),
    ...badLinks(draft),
    ...unknownQuotas(draft),
  ];
  return broken.map((problem) => ({ ...problem, part: "value" }));
}

type Problem = Omit<SchemaProblem, "part">;

interface NamedEntry {
  readonly path: ValuePath;
  readonly item: { readonly name?: string | undefined };
}

function sameNames(what: string, entries: readonly NamedEntry[]): Problem[] {
  const firstPaths = new Map<string, ValuePath>();
  return entries.flatMap(({ path, item: { name } }): Problem[] => {
    const first = name === undefined ? undefined : firstPaths.get(name);
    if (name !== undefined) firstPaths.set(name, first ?? path);
    if (first === undefined) return [];
    const message = `${what} ${shown(name)} is there twice, first at ${pathText(first)}`;
    return [{ path: [...path, "name"], value: name, message, remedy: "rename or remove one" }];
  });
}

/** One problem for each entry, however many of its names are taken. */
function sameHosts({ item, hosts }: DraftCluster): Problem[] {
  const firstPaths = new Map<string, ValuePath>();
  return hosts.flatMap(({ path, names }): Problem[] => {
    let taken: { readonly name: string; readonly by: ValuePath } | undefined;
    for (const name of names) {
      const by = firstPaths.get(name);
      firstPaths.set(name, by ?? path);
      if (by !== undefined) taken ??= { name, by };
    }
    if (taken === undefined) return [];
    const where = item.name === undefined ? "" : ` of cluster ${shown(item.name)}`;
    const message = `host ${shown(taken.name)}${where} is there twice, first at ${pathText(taken.by)}`;
    const remedy = "rename one, or correct its range";
    return [{ path: [...path, "name"], value: taken.name, message, remedy }];
  });
}

function unknownTypes({ clusters, ownTypes }: FleetDraft): Problem[] {
  const own = ownTypes.flatMap(({ item }) => item.name ?? []);
  const lackOf = ({ facts, broken }: DraftHost): string[] => [
    ...(facts.memoryGiB === undefined && !broken.includes("memory") ? ["memory"] : []),
    ...(facts.watts === undefined && !broken.includes("watts") ? ["watts"] : []),
  ];
  return clusters
    .flatMap(({ hosts }) => hosts)
    .flatMap((host): Problem[] => {
      const { type } = host.item;
      const lack = lackOf(host);
      // An own type that lacks something has that problem where it is described.
      if (type === undefined || lack.length === 0 || own.includes(type)) return [];
      const near = nearestGpuType(type, own);
      const write = `write ${lack.join(" and ")} here, or describe the type in gpuTypes`;
      const remedy = near === undefined ? write : `did you mean ${near}? Else ${write}`;
      const message = `GPU type ${shown(type)} is unknown`;
      return [{ path: [...host.path, "type"], value: type, message, remedy }];
    });
}

/** A budget below the draw of one GPU would leave that GPU idle for ever. */
function smallBudgets({ path, item, hosts }: DraftCluster): Problem[] {
  const draw = hosts.reduce((most, { facts }) => Math.max(most, facts.watts ?? 0), 0);
  return (["power", "cooling"] as const).flatMap((budget): Problem[] => {
    const limit = item[budget];
    if (limit === undefined || limit >= draw) return [];
    const message = `${powerText(limit)} is less than one GPU of the cluster draws, ${powerText(draw)}`;
    const remedy = "write what all its GPUs may draw together, or leave it out";
    return [{ path: [...path, budget], value: powerText(limit), message, remedy }];
  });
}

/** An agent must be able to say something within its silence, and to stop everything between silence and fence. */
function shortSilences({ path, item }: DraftCluster): Problem[] {
  const silenceMs = item.silence ?? DEFAULT_SILENCE_MS;
  const fenceMs = item.fence ?? DEFAULT_FENCE_MS;
  if (silenceMs < MIN_SILENCE_MS) {
    const message = `${silenceMs / 1000}s is too short for an agent to be heard`;
    const remedy = "write 1s or more; 90s is usual";
    return [{ path: [...path, "silence"], value: `${silenceMs / 1000}s`, message, remedy }];
  }
  if (fenceMs >= silenceMs) return [];
  const key = item.fence === undefined ? "silence" : "fence";
  const message = `the fence, ${fenceMs / 1000}s, is shorter than the silence, ${silenceMs / 1000}s`;
  const remedy = "make fence at least as long as silence";
  const value = key === "fence" ? `${fenceMs / 1000}s` : `${silenceMs / 1000}s`;
  return [{ path: [...path, key], value, message, remedy }];
}

type LinkEntry = Entry<typeof linkSchema>;

/** Its directions, each from one cluster to another; none when it has not two ends. */
export function linkDirections({
  between,
  from,
  to,
}: Partial<z.output<typeof linkSchema>>): readonly Direction[] {
  const [a, b] = between ?? [from, to];
  if (a === undefined || b === undefined) return [];
  const there = { from: a, to: b };
  return between === undefined ? [there] : [there, { from: b, to: a }];
}

interface Direction {
  readonly from: string;
  readonly to: string;
}

function badLinks({ clusters, links }: FleetDraft): Problem[] {
  const names = clusters.flatMap(({ item }) => item.name ?? []);
  const firstPaths = new Map<string, ValuePath>();
  return links.flatMap((link): Problem[] => {
    if (["between", "from", "to"].some((end) => link.broken.includes(end))) return [];
    const ends = badEnds(link, names);
    if (ends.length > 0) return ends;
    return linkDirections(link.item).flatMap(({ from, to }): Problem[] => {
      const key = `${from} ${to}`;
      const first = firstPaths.get(key);
      firstPaths.set(key, first ?? link.path);
      if (first === undefined) return [];
      const message = `a link from ${from} to ${to} is there already, at ${pathText(first)}`;
      return [{ path: link.path, value: link.item, message, remedy: "keep one of the two" }];
    });
  });
}

function badEnds({ path, item }: LinkEntry, clusters: readonly string[]): Problem[] {
  const { between, from, to } = item;
  const remedy = "write between: [a, b] for both directions, or from: a and to: b";
  const problem = { path, value: item, remedy };
  if (between !== undefined && (from !== undefined || to !== undefined)) {
    return [{ ...problem, message: "between is given, and from or to as well" }];
  }
  const [there] = linkDirections(item);
  if (there === undefined) return [{ ...problem, message: "the link has not two ends" }];
  const [pathOfFrom, pathOfTo] =
    between === undefined
      ? [
          [...path, "from"],
          [...path, "to"],
        ]
      : [
          [...path, "between", 0],
          [...path, "between", 1],
        ];
  if (there.from === there.to && pathOfTo !== undefined) {
    const message = `the link joins ${shown(there.to)} with itself`;
    return [{ path: pathOfTo, value: there.to, message, remedy: "name two clusters" }];
  }
  return [
    ...unknownName("cluster", { path: pathOfFrom ?? path, name: there.from }, clusters),
    ...unknownName("cluster", { path: pathOfTo ?? path, name: there.to }, clusters),
  ];
}

function unknownQuotas({ clusters, tenants }: FleetDraft): Problem[] {
  const types = clusters.flatMap(({ hosts }) => hosts.flatMap(({ item }) => item.type ?? []));
  return tenants.flatMap(({ path, item }) =>
    Object.keys(item.quota ?? {})
      .filter((type) => type !== "*")
      .flatMap((name) => unknownName("GPU type", { path: [...path, "quota", name], name }, types)),
  );
}

function unknownName(
  what: string,
  { path, name }: { readonly path: ValuePath; readonly name: string },
  known: readonly string[],
): Problem[] {
  if (known.includes(name)) return [];
  const names = [...new Set(known)];
  const near = nearestName(name, names);
  const remedy =
    near === undefined ? `known are ${names.slice(0, 10).join(", ")}` : `did you mean ${near}?`;
  return [{ path, value: name, message: `the fleet has no ${what} ${shown(name)}`, remedy }];
}
