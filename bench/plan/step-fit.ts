/**
 * @file Fits a step-time model of stated terms to a few rows of a profile, and says which few rows to measure.
 *
 * Step = (compute^γ + sync^γ)^(1/γ), γ ≥ 1 the overlap. Compute is constant for small loads and grows with large ones: s (1 + (load / knee)^p)^(1/p). Sync
 * = β (g − 1) within the fullest host of g GPUs + α (K − 1)/K / ways over K hosts, where a host has one way out, or two if each of them holds three GPUs or more
 * (a GPU's own socket first). A step takes a constant longer where hosts of a job hold odd numbers of GPUs. Where the batch varies compute is × (1 + contention (g − 1)),
 * for hosts that feed more GPUs, and × a random walk over loads. Parameters are logarithms with stated normal priors, so five rows
 * fit more terms than rows and what they do not show stays near the prior; the fit is the likeliest (Levenberg), on relative errors. Rows are chosen before any time is
 * looked at: greedily those that leave the least mean variance of the prediction over all placements (I-optimal design at the prior's mean).
 * Cost: rows × terms² for each row chosen; some hundred evaluations of five rows for the fit. Ties go to the earlier row.
 */

export interface StepRow {
  /** GPUs of each host. */
  readonly hosts: readonly number[];
  /** Samples a GPU, or 1 / GPUs at one global batch. */
  readonly load: number;
  readonly stepS: number;
}

interface Term {
  readonly mean: number;
  readonly deviation: number;
}

/** Means and deviations of logarithms; α, β relative to the compute of a small load, the knee to the middle load. */
const TERMS: readonly Term[] = [
  { mean: 0, deviation: 4 }, // scale
  { mean: 0, deviation: 1.5 }, // knee
  { mean: Math.log(1.5), deviation: 0.4 }, // sharpness
  { mean: Math.log(0.3), deviation: 1.2 }, // alpha
  { mean: Math.log(0.02), deviation: 1.2 }, // beta
  { mean: Math.log(1.3), deviation: 0.3 }, // overlap
  { mean: Math.log(0.03), deviation: 2 }, // uneven
  { mean: Math.log(0.02), deviation: 1.5 }, // contention
];

/** Deviation of the walk over a factor e of loads. */
const WALK = 0.2;

/** Relative error of a measured row. */
const NOISE = 0.05;

export interface StepFit {
  readonly alphaS: number;
  readonly betaS: number;
  readonly overlap: number;
  readonly predict: (row: Omit<StepRow, "stepS">) => number;
}

type Place = Omit<StepRow, "stepS">;

/** What is known of a profile before any time is. */
export interface StepScope {
  /** The geometric mean of all rows' loads. */
  readonly middle: number;
  /** Distinct, from the least. */
  readonly loads: readonly number[];
  /** The stated ones, then a step of the walk for each load but the least. */
  readonly terms: readonly Term[];
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

/** ln step of a place, with loads in middle loads. */
function logStep(logs: readonly number[], { hosts, load }: Place, scope: StepScope): number {
  const [scaleLog = 0, ...others] = logs.slice(0, TERMS.length);
  const [knee = 1, sharpness = 1, alpha = 0, beta = 0, more = 0, uneven = 0, contention = 0] =
    others.map(Math.exp);
  const { middle, loads } = scope;
  let walk = 0;
  for (let at = 1; at < loads.length && (loads[at] ?? 0) <= load; at += 1)
    walk += logs[TERMS.length + at - 1] ?? 0;
  const crowd = 1 + contention * (Math.max(...hosts) - 1);
  const grown = (1 + (load / middle / knee) ** sharpness) ** (1 / sharpness);
  const compute = Math.exp(walk) * grown * crowd;
  const ways = hosts.length > 1 && Math.min(...hosts) > 2 ? 2 : 1;
  const within = beta * (Math.max(...hosts) - 1);
  const over = (alpha * (hosts.length - 1)) / hosts.length / ways;
  const isUneven = hosts.length > 1 && hosts.some((gpus) => gpus % 2 === 1);
  const sync = within + over;
  const overlap = Math.max(1, more);
  const step = (compute ** overlap + sync ** overlap) ** (1 / overlap);
  return scaleLog + Math.log(step + (isUneven ? uneven : 0));
}

export function stepScope(rows: readonly Place[]): StepScope {
  const loads = [...new Set(rows.map(({ load }) => load))].sort((a, b) => a - b);
  const middle = Math.exp(sumOf(rows.map(({ load }) => Math.log(load))) / rows.length);
  // At one global batch load and GPUs go together: neither the walk nor crowded hosts can be told from compute.
  if (rows.every(({ hosts, load }) => Math.abs(load * sumOf(hosts) - 1) < 1e-9))
    return { middle, loads: [], terms: TERMS.slice(0, -1) };
  const walk = loads.slice(1).map((load, at) => ({
    mean: 0,
    deviation: WALK * Math.sqrt(Math.log(load / (loads[at] ?? 1))),
  }));
  return { middle, loads, terms: [...TERMS, ...walk] };
}

/** Derivatives by each term, at step 1e-4. */
function slopes(logs: readonly number[], place: Place, scope: StepScope): readonly number[] {
  const here = logStep(logs, place, scope);
  return logs.map((_, term) => {
    const moved = logs.map((value, at) => (at === term ? value + 1e-4 : value));
    return (logStep(moved, place, scope) - here) / 1e-4;
  });
}

export function rowsToMeasure(rows: readonly Place[], count: number): readonly number[] {
  const scope = stepScope(rows);
  const { terms } = scope;
  const means = terms.map(({ mean }) => mean);
  const gradients = rows.map((row) => slopes(means, row, scope));
  let covariance = terms.map(({ deviation }, at) =>
    terms.map((_, other) => (at === other ? deviation ** 2 : 0)),
  );
  const chosen: number[] = [];
  for (let round = 0; round < Math.min(count, rows.length); round += 1) {
    let best: { readonly row: number; readonly fall: number } | undefined;
    // What a row takes away from the variance of all predictions: Σ (g·Cv)² / (v·Cv + noise²).
    const spread = times(gradients, covariance);
    for (const [row, gradient] of gradients.entries()) {
      if (chosen.includes(row)) continue;
      const own = dot(spread[row] ?? [], gradient) + NOISE ** 2;
      const fall = sumOf(spread.map((each) => dot(each, gradient) ** 2)) / own;
      if (best === undefined || fall > best.fall * (1 + 1e-9)) best = { row, fall };
    }
    if (best === undefined) break;
    chosen.push(best.row);
    const gradient = gradients[best.row] ?? [];
    const reach = covariance.map((line) => dot(line, gradient));
    const own = dot(reach, gradient) + NOISE ** 2;
    covariance = covariance.map((line, at) =>
      line.map((value, other) => value - ((reach[at] ?? 0) * (reach[other] ?? 0)) / own),
    );
  }
  return chosen;
}

const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, value, at) => sum + value * (b[at] ?? 0), 0);

const times = (
  rows: readonly (readonly number[])[],
  matrix: readonly (readonly number[])[],
): readonly (readonly number[])[] => rows.map((row) => matrix.map((line) => dot(line, row)));

export function fitSteps(rows: readonly StepRow[], scope: StepScope): StepFit {
  const { terms } = scope;
  const means = terms.map(({ mean }) => mean);
  const level = sumOf(rows.map((row) => Math.log(row.stepS) - logStep(means, row, scope)));
  const start = means.map((mean, at) => (at === 0 ? level / rows.length : mean));
  const centre = start;
  const lossOf = (logs: readonly number[]): number =>
    sumOf(rows.map((row) => ((Math.log(row.stepS) - logStep(logs, row, scope)) / NOISE) ** 2)) +
    sumOf(
      terms.map(({ deviation }, at) => (((logs[at] ?? 0) - (centre[at] ?? 0)) / deviation) ** 2),
    );
  let logs: readonly number[] = start;
  let loss = lossOf(logs);
  let damping = 1;
  for (let round = 0; round < 200 && damping < 1e9; round += 1) {
    const gradients = rows.map((row) => slopes(logs, row, scope));
    const off = rows.map((row) => Math.log(row.stepS) - logStep(logs, row, scope));
    const matrix = terms.map(({ deviation }, a) =>
      terms.map((_, b) => {
        const sum = sumOf(gradients.map((line) => (line[a] ?? 0) * (line[b] ?? 0))) / NOISE ** 2;
        return sum + (a === b ? 1 / deviation ** 2 + damping : 0);
      }),
    );
    const right = terms.map(
      ({ deviation }, a) =>
        sumOf(gradients.map((line, row) => (line[a] ?? 0) * (off[row] ?? 0))) / NOISE ** 2 -
        ((logs[a] ?? 0) - (centre[a] ?? 0)) / deviation ** 2,
    );
    const move = solved(matrix, right);
    const next = logs.map((value, at) => value + (move[at] ?? 0));
    const nextLoss = lossOf(next);
    if (nextLoss < loss) {
      [logs, loss, damping] = [next, nextLoss, damping / 3];
    } else damping *= 4;
  }
  const [scale = 0, , , alpha = 0, beta = 0, overlap = 0] = logs;
  return {
    alphaS: Math.exp(scale + alpha),
    betaS: Math.exp(scale + beta),
    overlap: Math.max(1, Math.exp(overlap)),
    predict: (row) => Math.exp(logStep(logs, row, scope)),
  };
}

/** Gauss with pivots. */
function solved(
  matrix: readonly (readonly number[])[],
  right: readonly number[],
): readonly number[] {
  const size = right.length;
  const rows = matrix.map((line, at) => [...line, right[at] ?? 0]);
  for (let column = 0; column < size; column += 1) {
    let pivot = column;
    for (let row = column; row < size; row += 1)
      if (Math.abs(rows[row]?.[column] ?? 0) > Math.abs(rows[pivot]?.[column] ?? 0)) pivot = row;
    const lead = rows[pivot] ?? [];
    rows[pivot] = rows[column] ?? [];
    rows[column] = lead;
    for (let row = 0; row < size; row += 1) {
      if (row === column) continue;
      const factor = (rows[row]?.[column] ?? 0) / (lead[column] ?? 1);
      rows[row] = (rows[row] ?? []).map((value, at) => value - factor * (lead[at] ?? 0));
    }
  }
  return rows.map((row, at) => (row[size] ?? 0) / (row[at] ?? 1));
}
