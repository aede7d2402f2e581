/**
 * @file How far each host falls behind similar hosts, from measurements over several hosts: the only feature that distinguishes two hosts of a kind.
 *
 * The input is the error of a model without offsets (residuals of logarithms). The offset of a host is its part in a sparse linear
 * explanation: residual ≈ constant + sum of the offsets of the member hosts (lasso by coordinate descent, then again without
 * the penalty over the hosts that are left). The constant is penalised as an offset is: that the whole cluster has changed is no likelier
 * than that one host has, which nearly all that was measured may contain. Small offsets are taken for noise and are 0. Cost: O(rounds · hosts in samples).
 */

interface HostResidual {
  readonly hosts: readonly string[];
  /** log measured − log expected. */
  readonly residual: number;
}

/** Penalty per sample: an effect must explain more than this of the mean residual. */
const PENALTY = 0.05;
const ROUNDS = 300;
/** A host in fewer samples than this, or in all of them, has no identifiable offset. */
const LEAST_SAMPLES = 2;
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
  // A slow host in most of the samples also reads as quick others in the rest: each reading by itself, the better one counts.
  const readings = [-1, 1].map((sign) => {
    const sparse = fitted(values, members, { names, penalty: PENALTY, sign });
    const kept = names.filter((host) => (sparse.offsets.get(host) ?? 0) !== 0);
    return { sparse, offsets: fitted(values, members, { names: kept, penalty: 0, sign }).offsets };
  });
  const [best] = readings.sort((a, b) => a.sparse.cost - b.sparse.cost);
  return Object.fromEntries(
    [...(best?.offsets ?? [])].filter(([, offset]) => Math.abs(offset) >= LEAST_OFFSET),
  );
}

interface Fit {
  readonly names: readonly string[];
  readonly penalty: number;
  /** Of all offsets: −1 = hosts fall behind, 1 = hosts catch up. */
  readonly sign: number;
}

function fitted(
  values: readonly number[],
  members: ReadonlyMap<string, readonly number[]>,
  { names, penalty, sign }: Fit,
): { readonly offsets: ReadonlyMap<string, number>; readonly cost: number } {
  const offsets = new Map<string, number>();
  const rest = [...values];
  const shift = (indices: Iterable<number>, by: number): void => {
    for (const index of indices) rest[index] = (rest[index] ?? 0) - by;
  };
  const meanOf = (indices: readonly number[]): number =>
    indices.reduce((sum, index) => sum + (rest[index] ?? 0), 0) / Math.max(1, indices.length);
  const all = [...values.keys()];
  let constant = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const name of names) {
      const own = members.get(name) ?? [];
      shift(own, -(offsets.get(name) ?? 0));
      const size = Math.max(0, sign * meanOf(own) - (penalty * values.length) / own.length);
      shift(own, sign * size);
      offsets.set(name, sign * size);
    }
    shift(all, -constant);
    const mean = meanOf(all);
    constant = Math.sign(mean) * Math.max(0, Math.abs(mean) - penalty);
    shift(all, constant);
  }
  const squares = rest.reduce((sum, value) => sum + value ** 2, 0);
  const sizes = [...offsets.values()].reduce((sum, offset) => sum + Math.abs(offset), 0);
  const cost = squares / (2 * values.length) + penalty * (sizes + Math.abs(constant));
  return { offsets, cost };
}
