/**
 * @file How far each host falls behind hosts like it, from measurements over several hosts: the one thing that tells two hosts of a kind apart.
 *
 * Given what a model without such knowledge is wrong by (residuals of logarithms), the offset of a host is its part in a sparse linear
 * explanation: residual ≈ constant + sum of the offsets of the member hosts (lasso by coordinate descent, then again without
 * the penalty over the hosts that are left). Small offsets are taken for noise and are 0. Cost: O(rounds · hosts in samples).
 */

export interface HostResidual {
  readonly hosts: readonly string[];
  /** log measured − log expected. */
  readonly residual: number;
}

/** Penalty per sample: an effect must explain more than this of the mean residual. */
const PENALTY = 0.05;
const ROUNDS = 100;
/** A host seen in fewer samples, or never missing from one, cannot be told from the rest. */
const LEAST_SAMPLES = 3;
/** About 20 %; below it the Transformer and the memory do better. */
const LEAST_OFFSET = 0.2;
/** One far-off measurement must not make a host look slow. */
const MOST_RESIDUAL = 2;

export function hostOffsets(samples: readonly HostResidual[]): Readonly<Record<string, number>> {
  const values = samples.map(({ residual }) =>
    Math.max(-MOST_RESIDUAL, Math.min(MOST_RESIDUAL, residual)),
  );
  const members = new Map<string, number[]>();
  samples.forEach(({ hosts }, index) => {
    for (const host of hosts) {
      const of = members.get(host);
      if (of === undefined) members.set(host, [index]);
      else of.push(index);
    }
  });
  const names = [...members.keys()].sort().filter((host) => {
    const seen = members.get(host)?.length ?? 0;
    return seen >= LEAST_SAMPLES && samples.length - seen >= LEAST_SAMPLES;
  });
  const sparse = fitted(values, members, { names, penalty: PENALTY });
  const kept = names.filter((host) => Math.abs(sparse.get(host) ?? 0) > 0);
  const plain = fitted(values, members, { names: kept, penalty: 0 });
  return Object.fromEntries([...plain].filter(([, offset]) => Math.abs(offset) >= LEAST_OFFSET));
}

function fitted(
  values: readonly number[],
  members: ReadonlyMap<string, readonly number[]>,
  { names, penalty }: { readonly names: readonly string[]; readonly penalty: number },
): ReadonlyMap<string, number> {
  const offsets = new Map<string, number>();
  const rest = [...values];
  const shift = (indices: Iterable<number>, by: number): void => {
    for (const index of indices) rest[index] = (rest[index] ?? 0) - by;
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    // The constant is what most samples share, so one bad host in many of them does not move it: the median.
    shift(rest.keys(), median(rest));
    for (const name of names) {
      const own = members.get(name) ?? [];
      const old = offsets.get(name) ?? 0;
      shift(own, -old);
      const mean = own.reduce((sum, index) => sum + (rest[index] ?? 0), 0) / own.length;
      const cut = (penalty * values.length) / own.length;
      const next = Math.sign(mean) * Math.max(0, Math.abs(mean) - cut);
      shift(own, next);
      offsets.set(name, next);
    }
  }
  return offsets;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
