/** @file Clusters with links for tests: by name, and drawn. */
import fc from "fast-check";
import type { Link } from "../../../domain/fleet/fleet.ts";
import { clusterId } from "../../../domain/values/ids.ts";
import { gbps, ms } from "../../../domain/values/units.ts";
import type { ClusterRoom } from "../../../scheduling/placement/cluster-policy.ts";
import {
  addLoad,
  linksOf,
  openLinkGraph,
  openLoads,
} from "../../../scheduling/placement/link-graph.ts";

export interface TestLink {
  readonly between: string;
  readonly gbps: number;
  readonly latencyMs?: number;
  readonly usdPerGB?: number;
}

/** Clusters are single letters, `between` is two of them. */
export function roomOf(
  free: Readonly<Record<string, number>>,
  links: readonly TestLink[],
): ClusterRoom {
  const names = Object.keys(free);
  const graph = openLinkGraph(
    names.map((name) => clusterId(name)),
    links.map(({ between, gbps: width, latencyMs = 1, usdPerGB }): Link => ({
      from: clusterId(between.slice(0, 1)),
      to: clusterId(between.slice(1)),
      bandwidthGbps: gbps(width),
      latencyMs: ms(latencyMs),
      ...(usdPerGB !== undefined && { usdPerGB }),
    })),
  );
  return { links: openLoads(graph), free: Int32Array.from(Object.values(free)) };
}

export const namesOf = (numbers: readonly number[] | undefined): string =>
  [...(numbers ?? [])]
    .sort((a, b) => a - b)
    .map((each) => LETTERS.charAt(each))
    .join("");

export const LETTERS = "abcdefghijklmnop";

/** Irregular links, some clusters unlinked, some links loaded, many equal sizes and widths. */
export const anyRoom = (most: number): fc.Arbitrary<ClusterRoom> =>
  fc.integer({ min: 1, max: most }).chain((count) =>
    fc
      .record({
        free: fc.array(fc.integer({ min: 0, max: 12 }), { minLength: count, maxLength: count }),
        links: fc.array(
          fc.record({
            from: fc.nat(count - 1),
            to: fc.nat(count - 1),
            width: fc.constantFrom(1, 1, 2, 3, 5, 10, 25),
          }),
          { maxLength: 3 * count },
        ),
        gangs: fc.array(fc.array(fc.nat(count - 1), { minLength: 2, maxLength: 4 }), {
          maxLength: 4,
        }),
      })
      .map(({ free, links, gangs }) => {
        const named = Object.fromEntries(free.map((own, at) => [LETTERS.charAt(at), own]));
        const room = roomOf(
          named,
          links.map(({ from, to, width }) => ({
            between: LETTERS.charAt(from) + LETTERS.charAt(to),
            gbps: width,
            latencyMs: (from + to) % 5,
            usdPerGB: ((from * to) % 4) / 100,
          })),
        );
        for (const gang of gangs) {
          const clusters = [...new Set(gang)];
          addLoad(room.links, linksOf(room.links, clusters), 1);
        }
        return room;
      }),
  );
