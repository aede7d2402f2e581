/**
 * @file The rules between the entries of a fleet file: names that are unique and names that exist, types that are known,
 * links that have two ends. Budgets and times are in `fleet-limit-rules.ts`.
 */

import type { z } from "zod";
import { pathText, shown, type ValuePath } from "../values/file-problem.ts";
import type { DraftCluster, DraftHost, Entry, FleetDraft } from "./fleet-draft.ts";
import { accessProblems } from "./access-rules.ts";
import { limitProblems } from "./fleet-limit-rules.ts";
import { jobNoticeProblems } from "./job-notices.ts";
import { keepProblems } from "./keep-schema.ts";
import { notifyProblems } from "./notify-rules.ts";
import { sameNames, unknownName, type RuleProblem } from "./fleet-names.ts";
import type { linkSchema } from "./fleet-schema.ts";
import { nearestGpuType } from "../values/gpu-types.ts";
import type { SchemaProblem } from "../file/schema-problems.ts";

export function fleetRuleProblems(draft: FleetDraft): SchemaProblem[] {
  const broken = [
    ...sameNames("GPU type", draft.ownTypes),
    ...sameNames("cluster", draft.clusters),
    ...sameNames("tenant", draft.tenants),
    ...draft.clusters.flatMap(sameHosts),
    ...draft.clusters.flatMap(largeWeights),
    ...unknownTypes(draft),
    ...limitProblems(draft),
    ...badLinks(draft),
    ...unknownQuotas(draft),
    ...accessProblems(draft.access),
    ...notifyProblems(draft.notify),
    ...jobNoticeProblems(draft.jobNotices),
    ...keepProblems(draft.keep),
  ];
  return broken.map((problem) => ({ ...problem, part: "value" }));
}

type Problem = RuleProblem;

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

/** What a host keeps for weights is part of its memory, and some of that is for jobs. */
function largeWeights({ hosts }: DraftCluster): Problem[] {
  return hosts.flatMap(({ path, item: { weights, hostMemory } }): Problem[] => {
    if (weights === undefined || hostMemory === undefined || weights < hostMemory) return [];
    const message = `the host keeps all of its memory for weights, and has ${hostMemory} GiB`;
    const remedy = "write less than hostMemory, of which it is a part";
    return [{ path: [...path, "weights"], value: `${weights} GiB`, message, remedy }];
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
