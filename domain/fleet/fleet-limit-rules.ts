/**
 * @file The rules on budgets and times in a fleet file: budgets that power each GPU, sites and racks that exist, silence and
 * fence, and maintenance of hosts that exist, which ends after it begins.
 */

import { powerText } from "../values/dimensions.ts";
import { shown, type ValuePath } from "../values/file-problem.ts";
import type { DraftCluster, DraftHost, FleetDraft } from "./fleet-draft.ts";
import { sameNames, unknownName, type RuleProblem } from "./fleet-names.ts";
import { DEFAULT_FENCE_MS, DEFAULT_SILENCE_MS } from "./fleet.ts";

const MIN_SILENCE_MS = 1_000;

export function limitProblems({ clusters, sites }: FleetDraft): RuleProblem[] {
  return [
    ...sameNames("site", sites),
    ...clusters.flatMap((cluster) => [
      ...smallBudgets("cluster", cluster, cluster.hosts),
      ...shortSilences(cluster),
      ...rackProblems(cluster),
      ...windowProblems(cluster),
    ]),
    ...sites.flatMap((site): RuleProblem[] => {
      const { name } = site.item;
      if (name === undefined) return [];
      const there = clusters.filter(({ item }) => item.site === name);
      const path = [...site.path, "name"];
      const known = clusters.flatMap(({ item }) => item.site ?? []);
      return [
        ...unknownName("site", { path, name }, known),
        ...noBudget("site", site),
        ...smallBudgets(
          "site",
          site,
          there.flatMap(({ hosts }) => hosts),
        ),
      ];
    }),
  ];
}

function rackProblems({ item, hosts, racks }: DraftCluster): RuleProblem[] {
  const known = hosts.flatMap((host) => host.item.rack ?? []);
  return [
    ...sameNames("rack", racks),
    ...racks.flatMap((rack): RuleProblem[] => {
      const { name } = rack.item;
      if (name === undefined) return [];
      const there = hosts.filter((host) => host.item.rack === name);
      const path = [...rack.path, "name"];
      return [
        ...unknownName("rack", { path, name, of: clusterText(item.name) }, known),
        ...noBudget("rack", rack),
        ...smallBudgets("rack", rack, there),
      ];
    }),
  ];
}

interface Budgeted {
  readonly path: ValuePath;
  readonly item: { readonly [budget in (typeof BUDGETS)[number]]?: number | undefined };
  readonly broken: readonly string[];
}

const BUDGETS = ["power", "cooling"] as const;

function noBudget(what: string, { path, item, broken }: Budgeted): RuleProblem[] {
  const isOne = BUDGETS.some((key) => item[key] !== undefined || broken.includes(key));
  const message = `the ${what} is given neither power nor cooling`;
  const remedy = "write power: or cooling:, or leave the entry out";
  return isOne ? [] : [{ path, value: item, message, remedy }];
}

/** A budget below the draw of one GPU would leave that GPU idle for ever. */
function smallBudgets(
  what: string,
  { path, item }: Budgeted,
  hosts: readonly DraftHost[],
): RuleProblem[] {
  const draw = hosts.reduce((most, { facts }) => Math.max(most, facts.watts ?? 0), 0);
  return BUDGETS.flatMap((budget): RuleProblem[] => {
    const limit = item[budget];
    if (limit === undefined || limit >= draw) return [];
    const message = `${powerText(limit)} is less than one GPU of the ${what} draws, ${powerText(draw)}`;
    const remedy = "write what all its GPUs may draw together, or leave it out";
    return [{ path: [...path, budget], value: powerText(limit), message, remedy }];
  });
}

/** An agent must be able to say something within its silence, and to stop everything between silence and fence. */
function shortSilences({ path, item }: DraftCluster): RuleProblem[] {
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

function windowProblems({ item, hosts, windows }: DraftCluster): RuleProblem[] {
  const known = hosts.flatMap(({ names }) => names);
  const isKnown = new Set(known);
  return windows.flatMap(({ path, item: { hosts: named = [], from, to } }): RuleProblem[] => {
    const strangers = named.flatMap((names, index) => {
      const name = names.find((each) => !isKnown.has(each));
      if (name === undefined) return [];
      const at = { path: [...path, "hosts", index], name, of: clusterText(item.name) };
      return unknownName("host", at, known);
    });
    if (from === undefined || to === undefined || from < to) return strangers;
    const message = `the maintenance is over before it begins`;
    const remedy = "write a later time, or exchange from and to";
    const value = new Date(to).toISOString();
    return [...strangers, { path: [...path, "to"], value, message, remedy }];
  });
}

const clusterText = (name: string | undefined): string =>
  name === undefined ? "the cluster" : `cluster ${shown(name)}`;
