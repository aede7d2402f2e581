/**
 * @file States of a large cluster, each with a request: which gangs run, which GPUs are free, and how many are asked for.
 *
 * Gangs come until 30 to 70 % of the GPUs are taken, of sizes that are powers of two up to an eighth of the cluster, log-uniform. Most are
 * placed as schedulers do, host after host from a random one on; one in four on any hosts. Those over several hosts are neighbours. The
 * request is for two hosts' GPUs at least, a power of two, up to half of the cluster and to nine tenths of what is free.
 */

import type { Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { lowestBits } from "../../../lib/bits.ts";
import { shuffled, type Random } from "../../../lib/random.ts";
import type { Stream } from "../../fabric/fair-rates.ts";
import { freeGpus, type FabricField } from "./field.ts";

export interface FabricState {
  readonly gpus: number;
  readonly freeMasks: readonly number[];
  /** Those over several hosts. */
  readonly gangs: readonly Candidate[];
  readonly neighbours: readonly Stream[];
}

const LEAST_TAKEN = 0.3;
const MOST_TAKEN = 0.7;
const SCATTERED = 0.25;
const MOST_OF_FREE = 0.9;

export function drawnFabricState(field: FabricField, random: Random): FabricState {
  const { gpus: all, domain } = field;
  const freeMasks = freeGpus(field);
  const gangs: Candidate[] = [];
  const least = 2 * (domain.hosts[0]?.gpuCount ?? 8);
  const wanted = all * (LEAST_TAKEN + (MOST_TAKEN - LEAST_TAKEN) * random.unit());
  const mostSteps = Math.max(0, Math.floor(Math.log2(all / 8)));
  for (let taken = 0; taken < wanted;) {
    const size = 2 ** random.below(mostSteps + 1);
    if (taken + size > all - least) break;
    const first = random.below(domain.hosts.length);
    const order =
      random.unit() < SCATTERED
        ? shuffled([...domain.hosts.keys()], random)
        : Array.from(domain.hosts, (_, at) => (first + at) % domain.hosts.length);
    const gang = takenFrom(freeMasks, order, size);
    for (const { host, mask } of gang) freeMasks[host] = (freeMasks[host] ?? 0) & ~mask;
    taken += size;
    if (gang.length > 1) gangs.push(gang);
  }
  const free = freeMasks.reduce((sum, mask) => sum + popCount(mask), 0);
  const most = Math.max(least, Math.min(all / 2, MOST_OF_FREE * free));
  const steps = Math.floor(Math.log2(most / least));
  const neighbours = gangs.flatMap((gang) => field.truth.neighbour(gang) ?? []);
  return { gpus: least * 2 ** random.below(steps + 1), freeMasks, gangs, neighbours };
}

/** Host after host, the lowest free GPUs of each. */
export function takenFrom(
  freeMasks: readonly number[],
  order: readonly number[],
  size: number,
): Candidate {
  let open = size;
  const shares = order.flatMap((host) => {
    const mask = lowestBits(freeMasks[host] ?? 0, open);
    open -= popCount(mask);
    return mask === 0 ? [] : [{ host, mask }];
  });
  return shares.sort((a, b) => a.host - b.host);
}
