/**
 * @file The compact answer of Topo (algorithm 5 of BandPilot), as far as it needs no link weights.
 *
 * Hosts with the most free GPUs first, as few as hold the gang; all GPUs of each, and of the last one the missing number. Where the paper is
 * silent (any subset of the pool): the last host gives its best set; equal numbers of free GPUs go by index. A gang that one host holds is
 * left to the search over single hosts. Cost: O(hosts · log hosts).
 */

import type { Candidate } from "./bandwidth-port.ts";
import { candidateOf } from "./balanced.ts";
import type { HostOptions } from "./host-options.ts";

export function compactPick(hosts: readonly HostOptions[], gpus: number): Candidate | undefined {
  const most = [...hosts].sort((a, b) => b.free - a.free || a.host - b.host);
  const counts: number[] = [];
  let open = gpus;
  for (const { free } of most) {
    if (open <= 0) break;
    const count = Math.min(free, open);
    counts.push(count);
    open -= count;
  }
  return open > 0 ? undefined : candidateOf(most.slice(0, counts.length), counts);
}
