/**
 * @file The rules between the entries of a fleet file: names that are unique and names that exist, types that are known,
 * budgets that power each GPU, links that have two ends.
 */

import { powerText } from "./dimensions.ts";
import { pathText, shown, type ValuePath } from "./file-problem.ts";
import type { DraftCluster, FleetDraft } from "./fleet-draft.ts";
import type { ReadLink } from "./fleet-schema.ts";
import { nearestGpuType } from "./gpu-types.ts";
import { nearestName } from "./nearest-name.ts";
import type { SchemaProblem } from "./schema-problems.ts";

export function fleetRuleProblems(draft: FleetDraft): SchemaProblem[] {
  return [
    ...twice(
      "GPU type",
      draft.ownTypes.map(({ path, item }) => named([...path, "name"], item.name)),
    ),
    ...twice(
      "cluster",
      draft.clusters.map(({ path, name }) => named([...path, "name"], name)),
    ),
    ...twice(
      "tenant",
      draft.tenants.map(({ path, item }) => named([...path, "name"], item.name)),
    ),
    ...draft.clusters.flatMap(hostNameProblems),
    ...typeProblems(draft),
    ...draft.clusters.flatMap(budgetProblems),
    ...linkProblems(draft),
    ...quotaProblems(draft),
  ];
}

interface Named {
  readonly path: ValuePath;
  readonly name: string;
}

const named = (path: ValuePath, name: string | undefined): Named[] =>
  name === undefined ? [] : [{ path, name }];

function problem(
  path: ValuePath,
  value: unknown,
  [message, remedy]: readonly [string, string],
): SchemaProblem {
  return { path, part: "value", value, message, remedy };
}

function twice(what: string, names: readonly (readonly Named[])[]): SchemaProblem[] {
  const firstPaths = new Map<string, ValuePath>();
  const problems: SchemaProblem[] = [];
  for (const { path, name } of names.flat()) {
    const first = firstPaths.get(name);
    if (first === undefined) firstPaths.set(name, path);
    else
      problems.push(
        problem(path, name, [
          `${what} ${shown(name)} is named twice, first at ${pathText(first)}`,
          "rename or remove one",
        ]),
      );
  }
  return problems;
}

/** One problem for each entry, however many of its names are taken. */
function hostNameProblems({ name: cluster, hosts }: DraftCluster): SchemaProblem[] {
  const firstPaths = new Map<string, ValuePath>();
  const problems: SchemaProblem[] = [];
  for (const { path, names } of hosts) {
    let isReported = false;
    for (const name of names) {
      const first = firstPaths.get(name);
      firstPaths.set(name, first ?? path);
      if (first === undefined || isReported) continue;
      isReported = true;
      const message = `host ${shown(name)} of cluster ${shown(cluster)} is named twice, first at ${pathText(first)}`;
      problems.push(
        problem([...path, "name"], name, [message, "rename one, or correct its range"]),
      );
    }
  }
  return problems;
}

function typeProblems({ clusters, ownTypes }: FleetDraft): SchemaProblem[] {
  const own = ownTypes.map(({ item }) => item.name);
  return clusters
    .flatMap(({ hosts }) => hosts)
    .flatMap(({ path, item, facts }) => {
      const lacks = [
        facts.memoryGiB === undefined ? "memory" : [],
        facts.watts === undefined ? "watts" : [],
      ].flat();
      // An own type without facts has a problem where it is described.
      if (lacks.length === 0 || own.includes(item.type)) return [];
      const near = nearestGpuType(item.type, own);
      const write = `write ${lacks.join(" and ")} here, or describe the type in gpuTypes`;
      const remedy = near === undefined ? write : `did you mean ${near}? Else ${write}`;
      return [
        problem([...path, "type"], item.type, [`GPU type ${shown(item.type)} is unknown`, remedy]),
      ];
    });
}

/** A budget below the draw of one GPU would leave that GPU idle for ever. */
function budgetProblems({ path, item, hosts }: DraftCluster): SchemaProblem[] {
  if (item === undefined) return [];
  const draw = hosts.reduce((most, { facts }) => Math.max(most, facts.watts ?? 0), 0);
  return (["power", "cooling"] as const).flatMap((budget) => {
    const limit = item[budget];
    if (limit === undefined || limit >= draw) return [];
    const message = `${powerText(limit)} is less than one GPU of the cluster draws, ${powerText(draw)}`;
    return [
      problem([...path, budget], powerText(limit), [
        message,
        "write what the whole cluster may draw, or leave it out",
      ]),
    ];
  });
}

function linkProblems({ clusters, links }: FleetDraft): SchemaProblem[] {
  const names = clusters.flatMap(({ name }) => name ?? []);
  const firstPaths = new Map<string, ValuePath>();
  return links.flatMap(({ path, item }) => {
    const { between, from, to } = item;
    const isOneWay = from !== undefined || to !== undefined;
    if (between === undefined ? from === undefined || to === undefined : isOneWay) {
      const found =
        between === undefined
          ? "the link has not two ends"
          : "between is given, and from or to as well";
      return [
        problem(path, item, [
          found,
          "write between: [a, b] for both directions, or from: a and to: b",
        ]),
      ];
    }
    const ends: Named[] =
      between !== undefined
        ? between.map((name, index) => ({ path: [...path, "between", index], name }))
        : [named([...path, "from"], from), named([...path, "to"], to)].flat();
    const unknown = ends.filter(({ name }) => !names.includes(name));
    if (unknown.length > 0) return unknown.map((end) => unknownName("cluster", end, names));
    const [first, second] = ends;
    if (first !== undefined && first.name === second?.name) {
      return [
        problem(second.path, second.name, [
          `the link joins ${shown(second.name)} with itself`,
          "name two clusters",
        ]),
      ];
    }
    return linkEnds(item).flatMap((pair) => {
      const key = pair.join(" ");
      const before = firstPaths.get(key);
      firstPaths.set(key, before ?? path);
      if (before === undefined || before === path) return [];
      const message = `a link from ${pair.join(" to ")} is there already, at ${pathText(before)}`;
      return [problem(path, item, [message, "keep one of the two"])];
    });
  });
}

/** Its directions, each from one cluster to another. */
export function linkEnds({ between, from, to }: ReadLink): readonly (readonly [string, string])[] {
  const [a = from, b = to] = between ?? [];
  if (a === undefined || b === undefined) return [];
  return between === undefined
    ? [[a, b]]
    : [
        [a, b],
        [b, a],
      ];
}

function quotaProblems({ typeNames, tenants }: FleetDraft): SchemaProblem[] {
  return tenants.flatMap(({ path, item }) =>
    Object.keys(item.quota ?? {})
      .filter((type) => type !== "*" && !typeNames.includes(type))
      .map((type) =>
        unknownName("GPU type", { path: [...path, "quota", type], name: type }, typeNames),
      ),
  );
}

function unknownName(what: string, { path, name }: Named, known: readonly string[]): SchemaProblem {
  const near = nearestName(name, known);
  const remedy =
    near === undefined ? `known are ${known.slice(0, 10).join(", ")}` : `did you mean ${near}?`;
  return problem(path, name, [`the fleet has no ${what} ${shown(name)}`, remedy]);
}
