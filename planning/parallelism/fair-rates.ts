/**
 * @file Max–min fair rates of flows over links, by progressive filling (Bertsekas and Gallager 1992, §6.5.2).
 *
 * The link that has the least for each of its flows' edges fixes the rate of these flows; what is left is shared by the others. Cost: for each
 * link that fixes rates, O(edges).
 */

export interface Flow {
  /** One entry for each time that the flow crosses the link. */
  readonly links: readonly number[];
  /** Bytes. */
  left: number;
  /** Bytes a millisecond. */
  rate: number;
}

const LEAST_RATE = 1e-3;

export function fillRates(flows: readonly Flow[], bytesPerMs: Float64Array): void {
  const room = new Map<number, number>();
  const edges = new Map<number, number>();
  for (const { links } of flows)
    for (const link of links) {
      room.set(link, bytesPerMs[link] ?? 0);
      edges.set(link, (edges.get(link) ?? 0) + 1);
    }
  let open = flows;
  while (open.length > 0) {
    let [tightest, least] = [-1, Infinity];
    for (const [link, count] of edges) {
      const share = count > 0 ? (room.get(link) ?? 0) / count : Infinity;
      if (share < least) [tightest, least] = [link, share];
    }
    const still: Flow[] = [];
    for (const flow of open) {
      if (least < Infinity && !flow.links.includes(tightest)) {
        still.push(flow);
        continue;
      }
      flow.rate = least;
      for (const link of flow.links) {
        // Rounding must not leave a flow without any rate.
        room.set(link, Math.max(LEAST_RATE, (room.get(link) ?? 0) - least));
        edges.set(link, (edges.get(link) ?? 0) - 1);
      }
    }
    open = still;
  }
}
