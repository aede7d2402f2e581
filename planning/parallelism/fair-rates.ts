/**
 * @file Max–min fair rates of flows over links, by progressive filling (Bertsekas and Gallager 1992, §6.5.2).
 *
 * The links that have the least for each of their flows' edges fix the rates of these flows; what is left is shared by the others. Cost: for each
 * such least, O(edges).
 */

export interface Flow {
  /** One entry for each time that the flow crosses the link. */
  links: readonly number[];
  /** Bytes. */
  left: number;
  /** Bytes a millisecond. */
  rate: number;
}

const LEAST_RATE = 1e-3;
/** Shares that differ by less are one: ports that are alike fix their rates together. */
const ROUNDING = 1e-12;

/** Fills the rates of flows over these links, as often as it is called: it is asked at nearly each moment of a step, so it keeps its lists. */
export function rateFiller(bytesPerMs: Float64Array): (flows: readonly Flow[]) => void {
  const room = new Float64Array(bytesPerMs.length);
  /** Of flows without a rate yet: none at the end. */
  const edges = new Int32Array(bytesPerMs.length);
  const isTight = new Uint8Array(bytesPerMs.length);
  /** Those with edges are first, so many. */
  const used = new Int32Array(bytesPerMs.length);
  let usedCount = 0;
  const open: (Flow | undefined)[] = [];
  /** Counts edges, and gives the number of links that have some. No list is made on the way: it is asked too often. */
  const count = (flows: readonly Flow[]): number => {
    let found = 0;
    for (let at = 0; at < flows.length; at += 1) {
      const links = flows[at]?.links ?? NOWHERE;
      for (let step = 0; step < links.length; step += 1) {
        const link = links[step] ?? 0;
        const before = edges[link] ?? 0;
        if (before === 0) {
          used[found] = link;
          found += 1;
          room[link] = bytesPerMs[link] ?? 0;
        }
        edges[link] = before + 1;
      }
    }
    return found;
  };
  const crossesTight = (links: readonly number[]): boolean => {
    for (let at = 0; at < links.length; at += 1) if (isTight[links[at] ?? 0] === 1) return true;
    return false;
  };
  /** Marks the links with the least share, and gives that. Links without edges leave the list. */
  const tighten = (): number => {
    let [least, still] = [Infinity, 0];
    for (let at = 0; at < usedCount; at += 1) {
      const link = used[at] ?? 0;
      const own = edges[link] ?? 0;
      isTight[link] = 0;
      if (own === 0) continue;
      used[still] = link;
      still += 1;
      const share = (room[link] ?? 0) / own;
      if (share < least) least = share;
    }
    usedCount = still;
    const most = least * (1 + ROUNDING);
    for (let at = 0; at < still; at += 1) {
      const link = used[at] ?? 0;
      if ((room[link] ?? 0) <= most * (edges[link] ?? 0)) isTight[link] = 1;
    }
    return least;
  };
  return (flows) => {
    usedCount = count(flows);
    for (let at = 0; at < flows.length; at += 1) open[at] = flows[at];
    for (let left = flows.length; left > 0;) {
      const least = tighten();
      let still = 0;
      for (let at = 0; at < left; at += 1) {
        const flow = open[at];
        if (flow === undefined) continue;
        const { links } = flow;
        if (least < Infinity && !crossesTight(links)) {
          open[still] = flow;
          still += 1;
          continue;
        }
        flow.rate = least;
        for (let step = 0; step < links.length; step += 1) {
          const link = links[step] ?? 0;
          // Rounding must not leave a flow without any rate.
          room[link] = Math.max(LEAST_RATE, (room[link] ?? 0) - least);
          edges[link] = (edges[link] ?? 0) - 1;
        }
      }
      left = still;
    }
  };
}

const NOWHERE: readonly number[] = [];
