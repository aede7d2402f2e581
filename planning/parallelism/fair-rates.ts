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

/** Fills the rates of flows over these links, as often as it is called: it is asked at each moment of a step, so it keeps its lists. */
export function rateFiller(bytesPerMs: Float64Array): (flows: readonly Flow[]) => void {
  const room = new Float64Array(bytesPerMs.length);
  /** Of flows without a rate yet: none at the end. */
  const edges = new Int32Array(bytesPerMs.length);
  const used: number[] = [];
  return (flows) => {
    used.length = 0;
    for (const { links } of flows)
      for (const link of links) {
        const count = edges[link] ?? 0;
        if (count === 0) {
          used.push(link);
          room[link] = bytesPerMs[link] ?? 0;
        }
        edges[link] = count + 1;
      }
    let open = flows;
    while (open.length > 0) {
      let [tightest, least] = [-1, Infinity];
      for (const link of used) {
        const count = edges[link] ?? 0;
        if (count === 0) continue;
        const share = (room[link] ?? 0) / count;
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
          room[link] = Math.max(LEAST_RATE, (room[link] ?? 0) - least);
          edges[link] = (edges[link] ?? 0) - 1;
        }
      }
      open = still;
    }
  };
}
